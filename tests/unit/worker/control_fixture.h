// A worker's control side with routers and peers made by hand, all on the test's own thread; its
// clock stands still until the test moves it.
#pragma once

#include <optional>

#include "baton/protocol/codec.h"

#include "control.h"
#include "worker_rig.h"

namespace baton::worker {

using namespace std::chrono_literals;  // NOLINT: durations in every test

/// The other end of one control connection.
class Peer {
 public:
  explicit Peer(Epoch own) : epoch(own) {}

  void attach(std::shared_ptr<net::FrameConnection> made) {
    connection = std::move(made);
    connection->on_frame([this](std::string_view payload) {
      protocol::Envelope envelope = protocol::decode(payload).value();
      worker = envelope.from;
      addressed_to = envelope.to;
      heard.push_back(std::move(envelope.message));
    });
    connection->on_closed([this](const Error&) { closed = true; });
  }
  void say(const protocol::Message& message) {
    connection->send(protocol::encode({epoch, worker, message}));
  }
  template <typename Message>
  std::vector<Message> got() const {
    std::vector<Message> out;
    for (const protocol::Message& each : heard) {
      if (const auto* message = std::get_if<Message>(&each)) out.push_back(*message);
    }
    return out;
  }

  Epoch epoch;
  Epoch worker;        ///< of the process at the other end, once it has said something
  Epoch addressed_to;  ///< by its last message
  std::shared_ptr<net::FrameConnection> connection;
  std::vector<protocol::Message> heard;
  bool closed = false;
};

class ControlFixture : public testing::Test, public Deaf {
 protected:
  explicit ControlFixture(protocol::Role role)
      : rig(role),
        control(loop, {role, NodeId("w"), Epoch(50), "host-a"}, rig.probe, [this] { return now; }) {
    endpoint = control.listen({}).value();
  }
  ~ControlFixture() override {
    control.stop_serving();
    rig.stop();
    for (auto& peer : peers_) {
      if (peer->connection) peer->connection->close();
    }
  }

  static protocol::Fingerprint fingerprint() {
    return protocol::Fingerprint(protocol::Fingerprint::Fields{{"weights", "w"}});
  }
  void serve(const std::vector<std::string>& transports = {"loopback"}) {
    rig.make_driver(*this, transports);
    Serving serving;
    serving.fingerprint = fingerprint();
    serving.info.model = "m";
    serving.bundle = bundle;
    serving.engine = rig.engine.get();
    serving.driver = rig.driver.get();
    control.serve(std::move(serving));
  }

  bool wait(const std::function<bool()>& condition) {
    const Instant end = monotonic_now() + 20s;
    while (!condition() && monotonic_now() < end) loop.run_one(2ms);
    return condition();
  }
  /// What was sent before, in either direction, has been handled.
  void settle(Peer& router) {
    const std::size_t before = router.got<protocol::BundlePart>().size();
    router.say(protocol::BundleRequest{});
    EXPECT_TRUE(
        wait([&] { return router.got<protocol::BundlePart>().size() > before || router.closed; }));
  }
  void pass(Duration time) {
    now += time;
    control.tick(now);
  }
  double dropped(Reason reason) const {
    return rig.metric(
        {"baton_control_dropped_total", "reason=\"" + std::string(info(reason).label) + "\""});
  }

  Peer& connect(Epoch epoch) {
    Peer& peer = *peers_.emplace_back(std::make_unique<Peer>(epoch));
    client_.connect(endpoint, 5s, [&peer](auto made) { peer.attach(std::move(made.value())); });
    EXPECT_TRUE(wait([&] { return peer.connection != nullptr; }));
    return peer;
  }
  static protocol::Hello hello_of(protocol::Role role, const std::string& node, Epoch epoch) {
    protocol::Hello hello;
    hello.role = role;
    hello.node = NodeId(node);
    hello.epoch = epoch;
    return hello;
  }
  /// Has said hello and was answered.
  Peer& introduce(const protocol::Hello& hello) {
    Peer& peer = connect(hello.epoch);
    peer.say(hello);
    EXPECT_TRUE(wait([&] { return !peer.heard.empty(); }));
    return peer;
  }
  Peer& router(const std::string& node = "r", std::uint64_t epoch = 1) {
    return introduce(hello_of(protocol::Role::router, node, Epoch(epoch)));
  }
  void expect_refused(Peer& peer, Reason reason) {
    EXPECT_TRUE(wait([&] { return peer.closed; }));
    const auto refusals = peer.got<protocol::HelloRefused>();
    ASSERT_EQ(refusals.size(), 1U);
    EXPECT_EQ(refusals[0].reason, reason);
    EXPECT_EQ(dropped(reason), 1);
  }

  // The driver's words, brought to the control thread.
  void link_expected(handoff::LinkId link) override {
    loop.post([this, link] { control.link_expected(link); });
  }
  void link_lost(handoff::LinkId link, const Error& error) override {
    loop.post([this, link, error] { control.link_lost(link, error); });
  }

  Instant now = Instant{} + 1h;
  std::string bundle = "bundle";
  net::EventLoop loop;
  WorkerRig rig;
  Control control;
  Endpoint endpoint;

 private:
  net::FrameClient client_{loop, {}};
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace baton::worker

// Pair connections: prefill nodes that connect to a decode node, and the decode nodes that a
// prefill node connects to.
#include "control_fixture.h"

namespace baton::worker {
namespace {

using protocol::Role;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const protocol::AttemptKey key{{1, 1}, {1, 1}};

// ---- the decode node's side ----

class PairsIn : public ControlFixture {
 protected:
  PairsIn() : ControlFixture(Role::decode) {}

  static protocol::Hello pair_hello(const std::vector<std::string>& transports = {"loopback"},
                                    const std::string& host = "host-a") {
    protocol::Hello hello = hello_of(Role::prefill, "p", Epoch(8));
    hello.fingerprint = fingerprint().digest();
    hello.transports = transports;
    hello.host = host;
    return hello;
  }
};

TEST_F(PairsIn, APrefillNodeIsAnsweredOnceItsDataLinkIsExpected) {
  serve();
  Peer& peer = connect(Epoch(8));
  peer.say(pair_hello());
  ASSERT_TRUE(wait([&] { return control.pairs().size() == 1; }));
  for (int i = 0; i < 20; ++i) loop.run_one(1ms);
  EXPECT_THAT(peer.heard, IsEmpty());  // the driver has not said that it expects the link
  rig.driver->start();
  ASSERT_TRUE(wait([&] { return !peer.heard.empty(); }));
  const auto data = peer.got<protocol::HelloAck>().at(0).data;
  ASSERT_TRUE(data.has_value());
  EXPECT_EQ(data->transport, "loopback");
  EXPECT_EQ(data->address, rig.driver->addresses()[0].second);
  EXPECT_NE(data->token, RequestId());
  EXPECT_NE(data->secret, RequestId());
  EXPECT_NE(data->secret, data->token);
  EXPECT_EQ(control.pairs()[0].node, NodeId("p"));
  EXPECT_EQ(control.pairs()[0].transport, "loopback");
}

TEST_F(PairsIn, CachesThatAreNotInterchangeableDoNotPair) {
  serve();
  protocol::Hello hello = pair_hello();
  hello.fingerprint = protocol::sha256("another model");
  expect_refused(introduce(hello), Reason::fingerprint_mismatch);
  hello.fingerprint.reset();
  Peer& without = introduce(hello);
  EXPECT_EQ(without.got<protocol::HelloRefused>().at(0).reason, Reason::fingerprint_mismatch);
  EXPECT_THAT(control.pairs(), IsEmpty());
}

TEST_F(PairsIn, WithoutATransportInCommonTheyDoNotPair) {
  serve();
  expect_refused(introduce(pair_hello({"pigeon"})), Reason::transport_failed);
}

TEST_F(PairsIn, SharedMemoryIsForNodesOfOneHost) {
  serve({"shm", "loopback"});
  rig.driver->start();
  const auto link_with = [&](const protocol::Hello& hello) {
    return introduce(hello).got<protocol::HelloAck>().at(0).data.value();
  };
  EXPECT_EQ(link_with(pair_hello({"loopback", "shm"})).transport, "shm");
  EXPECT_EQ(link_with(pair_hello({"loopback", "shm"}, "host-b")).transport, "loopback");
  EXPECT_EQ(link_with(pair_hello({"loopback", "shm"}, "host-b")).why, "the nodes run on two hosts");
  EXPECT_EQ(link_with(pair_hello({"loopback"})).why, "shm is not enabled on both nodes");
}

TEST_F(PairsIn, TheEndOfEitherConnectionEndsThePair) {
  serve();
  rig.driver->start();
  Peer& first = introduce(pair_hello());
  first.connection->close();
  EXPECT_TRUE(wait([&] { return control.pairs().empty(); }));
  Peer& second = introduce(pair_hello());
  control.link_lost(handoff::LinkId(2), Error(Reason::transport_failed, "planted"));
  EXPECT_TRUE(wait([&] { return second.closed; }));
  EXPECT_THAT(control.pairs(), IsEmpty());
  control.link_lost(handoff::LinkId(2), Error(Reason::transport_failed, "again"));
}

TEST_F(PairsIn, WhatThePairIsToldGoesToThatPairAlone) {
  serve();
  rig.driver->start();
  Peer& first = introduce(pair_hello());
  Peer& second = introduce(pair_hello());
  control.send_to_pair(handoff::LinkId(2), protocol::Accepted{key});
  control.deliver({ToPair{handoff::LinkId(2), protocol::Accepted{key}}});
  control.send_to_pair(handoff::LinkId(3), protocol::Accepted{key});
  ASSERT_TRUE(wait([&] { return second.got<protocol::Accepted>().size() == 2; }));
  EXPECT_THAT(first.got<protocol::Accepted>(), IsEmpty());
}

TEST_F(PairsIn, APeerThatFloodsLosesItsConnection) {
  serve();
  Peer& peer = connect(Epoch(8));
  peer.worker = Epoch(50);
  peer.say(pair_hello());
  ASSERT_TRUE(wait([&] { return control.pairs().size() == 1; }));
  while (rig.driver->post(handoff::PairMessage{handoff::LinkId(1), protocol::Accepted{key}, {}})) {
  }
  peer.say(protocol::Accepted{key});
  EXPECT_TRUE(wait([&] { return peer.closed; }));
  EXPECT_THAT(control.pairs(), IsEmpty());
}

TEST_F(PairsIn, ADecodeNodeConnectsToNobody) {
  serve();
  Peer& told = router();
  told.say(protocol::Peers{{{NodeId("d"), Epoch(7), endpoint.to_string()}}});
  settle(told);
  pass(1s);
  for (int i = 0; i < 20; ++i) loop.run_one(1ms);
  EXPECT_EQ(dropped(Reason::protocol_violation), 0);  // its own listener would have refused it
}

// ---- the prefill node's side ----

class PairsOut : public ControlFixture {
 protected:
  PairsOut() : ControlFixture(Role::prefill) {
    server_ = net::FrameServer::listen(loop, {}, {}, [this](auto connection) {
                accepted.push_back(std::make_unique<Peer>(decode_epoch));
                accepted.back()->attach(std::move(connection));
              }).value();
  }
  ~PairsOut() override { control.stop_serving(); }

  protocol::Peers::Peer decode() const {
    return {NodeId("d"), decode_epoch, server_->endpoint().to_string()};
  }
  /// A router that wants a connection to the decode node, which has accepted it and got a hello.
  Peer& want() {
    Peer& wanting = router();
    wanting.say(protocol::Peers{{decode()}});
    EXPECT_TRUE(wait_hello(1));
    return wanting;
  }
  bool wait_hello(std::size_t connections) {
    return wait([&] {
      return accepted.size() == connections && !accepted.back()->got<protocol::Hello>().empty();
    });
  }
  protocol::HelloAck ack() const {
    protocol::HelloAck out;
    out.node = NodeId("d");
    out.epoch = decode_epoch;
    out.fingerprint = fingerprint().digest();
    out.data = protocol::DataLink{"loopback", "nowhere", {1, 2}, {3, 4}, "one process"};
    return out;
  }
  /// The answer is refused: the connection ends, no pair is made, and it is tried again later.
  void expect_turned_down(const protocol::Message& answer) {
    want();
    accepted[0]->say(answer);
    EXPECT_TRUE(wait([&] { return accepted[0]->closed; }));
    EXPECT_THAT(control.pairs(), IsEmpty());
    pass(49ms);
    for (int i = 0; i < 20; ++i) loop.run_one(1ms);
    EXPECT_THAT(accepted, SizeIs(1));
    pass(1ms);
    EXPECT_TRUE(wait_hello(2));
  }

  const Epoch decode_epoch{77};
  std::vector<std::unique_ptr<Peer>> accepted;

 private:
  std::unique_ptr<net::FrameServer> server_;
};

TEST_F(PairsOut, TheDecodeNodesThatARouterNamesAreConnectedTo) {
  serve({"shm", "loopback"});
  want();
  const auto hello = accepted[0]->got<protocol::Hello>().at(0);
  EXPECT_EQ(hello.role, Role::prefill);
  EXPECT_EQ(hello.node, NodeId("w"));
  EXPECT_EQ(hello.epoch, Epoch(50));
  EXPECT_EQ(hello.fingerprint, fingerprint().digest());
  EXPECT_EQ(hello.host, "host-a");
  EXPECT_THAT(hello.transports, ElementsAre("shm", "loopback"));
  EXPECT_EQ(accepted[0]->addressed_to, decode_epoch);
  EXPECT_THAT(control.pairs(), IsEmpty());
  accepted[0]->say(ack());
  ASSERT_TRUE(wait([&] { return control.pairs().size() == 1; }));
  EXPECT_EQ(control.pairs()[0].node, NodeId("d"));
  EXPECT_EQ(control.pairs()[0].why, "one process");
}

TEST_F(PairsOut, ADataLinkThatCannotBeMadeEndsThePairAndItIsTriedAgain) {
  serve();
  rig.driver->start();
  want();
  accepted[0]->say(ack());  // its address is nowhere
  ASSERT_TRUE(wait([&] { return accepted[0]->closed; }));
  EXPECT_THAT(control.pairs(), IsEmpty());
  pass(50ms);
  EXPECT_TRUE(wait_hello(2));
}

TEST_F(PairsOut, ARefusalIsTakenAsOneAndTriedAgain) {
  serve();
  expect_turned_down(protocol::HelloRefused{Reason::no_worker, "the model is being loaded"});
}

TEST_F(PairsOut, AnAnswerWithoutADataLinkIsNone) {
  serve();
  protocol::HelloAck answer = ack();
  answer.data.reset();
  expect_turned_down(answer);
}

TEST_F(PairsOut, AnAnswerOfAnotherNodeIsNone) {
  serve();
  protocol::HelloAck answer = ack();
  answer.node = NodeId("e");
  expect_turned_down(answer);
}

TEST_F(PairsOut, AnAnswerOfAnotherLifeIsNone) {
  serve();
  want();
  accepted[0]->epoch = Epoch(78);
  accepted[0]->say(ack());
  EXPECT_TRUE(wait([&] { return dropped(Reason::stale_epoch) == 1; }));
  EXPECT_THAT(control.pairs(), IsEmpty());
  pass(5001ms);
  EXPECT_TRUE(wait([&] { return accepted[0]->closed; }));
}

TEST_F(PairsOut, AnotherFingerprintDoesNotPair) {
  serve();
  protocol::HelloAck answer = ack();
  answer.fingerprint = protocol::sha256("another model");
  expect_turned_down(answer);
}

TEST_F(PairsOut, ASecondAnswerOnOneConnectionEndsIt) {
  serve();
  want();
  accepted[0]->say(ack());
  accepted[0]->say(ack());
  EXPECT_TRUE(wait([&] { return accepted[0]->closed; }));
  EXPECT_THAT(control.pairs(), IsEmpty());
}

TEST_F(PairsOut, ADecodeNodeThatSaysNothingIsTriedAgain) {
  serve();
  want();
  pass(5s);
  for (int i = 0; i < 20; ++i) loop.run_one(1ms);
  EXPECT_FALSE(accepted[0]->closed);
  pass(1ms);
  EXPECT_TRUE(wait([&] { return accepted[0]->closed; }));
  pass(50ms);
  EXPECT_TRUE(wait_hello(2));
}

TEST_F(PairsOut, APairThatSaysNothingForLongStays) {
  serve();
  want();
  accepted[0]->say(ack());
  ASSERT_TRUE(wait([&] { return control.pairs().size() == 1; }));
  pass(1h);
  for (int i = 0; i < 20; ++i) loop.run_one(1ms);
  EXPECT_FALSE(accepted[0]->closed);
}

TEST_F(PairsOut, WaitsGrowFromAttemptToAttemptUpToABound) {
  serve();
  Peer& wanting = router();
  const Endpoint nobody = [&] {
    auto gone = net::FrameServer::listen(loop, {}, {}, [](auto) {}).value();
    return gone->endpoint();
  }();
  // Each refused connection is one line of the log; what is seen here is when the next one comes.
  testing::internal::CaptureStderr();
  wanting.say(protocol::Peers{{{NodeId("d"), decode_epoch, nobody.to_string()}}});
  settle(wanting);
  for (int i = 0; i < 20; ++i) loop.run_one(1ms);
  for (Duration waited{}; waited < 10s; waited += 50ms) {
    pass(50ms);
    for (int i = 0; i < 3; ++i) loop.run_one(500us);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  std::size_t attempts = 0;
  for (std::size_t at = 0; (at = log.find("cannot reach", at)) != std::string::npos; ++at) {
    ++attempts;
  }
  // 0, then after 50, 100, 200, 400, 800, 1600, 2000, 2000, 2000 ms.
  EXPECT_GE(attempts, 8U);
  EXPECT_LE(attempts, 10U);
}

TEST_F(PairsOut, WhatNoRouterWantsAnyMoreIsLetGo) {
  serve();
  Peer& wanting = want();
  accepted[0]->say(ack());
  ASSERT_TRUE(wait([&] { return control.pairs().size() == 1; }));
  wanting.say(protocol::Peers{});
  EXPECT_TRUE(wait([&] { return accepted[0]->closed; }));
  EXPECT_THAT(control.pairs(), IsEmpty());
  pass(1h);
  for (int i = 0; i < 20; ++i) loop.run_one(1ms);
  EXPECT_THAT(accepted, SizeIs(1));
}

TEST_F(PairsOut, WhatOneRouterWantsAnothersEndDoesNotTake) {
  serve();
  Peer& first = want();
  accepted[0]->say(ack());
  Peer& second = router("s", 2);
  second.say(protocol::Peers{{decode()}});
  settle(second);
  first.connection->close();
  for (int i = 0; i < 20; ++i) loop.run_one(1ms);
  EXPECT_THAT(control.pairs(), SizeIs(1));
  second.connection->close();
  EXPECT_TRUE(wait([&] { return control.pairs().empty(); }));
  EXPECT_THAT(accepted, SizeIs(1));
}

TEST_F(PairsOut, ANewLifeOfADecodeNodeIsANewPair) {
  serve();
  Peer& wanting = want();
  accepted[0]->say(ack());
  ASSERT_TRUE(wait([&] { return control.pairs().size() == 1; }));
  protocol::Peers::Peer next = decode();
  next.epoch = Epoch(78);
  wanting.say(protocol::Peers{{next}});
  ASSERT_TRUE(wait_hello(2));
  EXPECT_TRUE(accepted[0]->closed);
  EXPECT_EQ(accepted[1]->addressed_to, Epoch(78));
}

TEST_F(PairsOut, TheDecodeNodesEndIsFollowedByANewAttempt) {
  serve();
  want();
  accepted[0]->say(ack());
  ASSERT_TRUE(wait([&] { return control.pairs().size() == 1; }));
  accepted[0]->connection->close();
  ASSERT_TRUE(wait([&] { return control.pairs().empty(); }));
  pass(50ms);
  EXPECT_TRUE(wait_hello(2));
}

TEST_F(PairsOut, APeerThatFloodsLosesItsConnection) {
  serve();
  want();
  accepted[0]->say(ack());
  ASSERT_TRUE(wait([&] { return control.pairs().size() == 1; }));
  while (rig.driver->post(handoff::PairMessage{handoff::LinkId(1), protocol::Accepted{key}, {}})) {
  }
  accepted[0]->say(protocol::Accepted{key});
  EXPECT_TRUE(wait([&] { return accepted[0]->closed; }));
}

}  // namespace
}  // namespace baton::worker

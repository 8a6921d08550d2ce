// Handoffs that something goes wrong with: links, payloads, answers that do not come.
#include "driver_fixture.h"

namespace baton::handoff {
namespace {

using std::chrono::milliseconds;

class DriverFailure : public DriverTest {};

TEST_P(DriverFailure, ALinkThatCannotBeMadeIsToldAsLost) {
  start();
  protocol::DataLink data;
  data.transport = "pigeon";
  EXPECT_TRUE(prefill->driver().post(ConnectLink{LinkId(7), NodeId("d"), decode_epoch, data}));
  data.transport = prefill->transport();
  data.address = "nowhere";
  EXPECT_TRUE(prefill->driver().post(ConnectLink{LinkId(8), NodeId("d"), decode_epoch, data}));
  EXPECT_TRUE(prefill->wait_for([](const auto& s) { return s.lost.size() == 2; }));
  EXPECT_THAT(prefill->seen().lost, testing::ElementsAre(LinkId(7), LinkId(8)));
}

TEST_P(DriverFailure, TheOtherSidesEndOfTheLinkFailsTheHandoff) {
  start();
  begin();
  open(10);
  target(10);
  layer(0);
  ASSERT_TRUE(decode->wait_for([](const auto& s) { return s.received_bytes > 0; }));
  decode->driver().post(DropLink{link_id});
  ASSERT_TRUE(prefill->wait_for([](const auto& s) { return s.lost.size() == 1; }));
  EXPECT_TRUE(prefill->wait_for([](const auto& s) { return s.failed.size() == 1; }));
  expect_all_let_go(10);
}

TEST_P(DriverFailure, ACommitThatNobodyAnswersFailsInTime) {
  patience.answer = milliseconds(100);
  start();
  prefill->pair_with([](LinkId, const protocol::Message&) {});  // the commit is lost
  whole(10);
  ASSERT_TRUE(prefill->wait_for([](const auto& s) { return s.failed.size() == 1; }));
  EXPECT_EQ(prefill->seen().failed[0].reason, Reason::deadline_exceeded);
  expect_all_let_go(10);
}

TEST_P(DriverFailure, UnitsThatAreLostOnTheWayEndTheCommitInTimeAndPinNothing) {
  patience.units = milliseconds(100);
  transport::FaultPolicy lossy;
  lossy.drop_offer = 1;
  start({}, lossy);
  whole(10);
  ASSERT_TRUE(prefill->wait_for([](const auto& s) { return s.failed.size() == 1; }));
  EXPECT_EQ(prefill->seen().failed[0].reason, Reason::missing_units);
  EXPECT_THAT(decode->seen().refused_commits, testing::ElementsAre(Reason::missing_units));
  expect_all_let_go(10);  // the sends, which nobody will answer, are cancelled
}

TEST_P(DriverFailure, AShortPayloadIsNotTakenForWhatLayThereBefore) {  // P2
  transport::FaultPolicy cuts;
  cuts.truncate = 1;
  start(cuts);
  fill();
  // The blocks hold the very bytes already, from an earlier use.
  for (int each = 0; each < arena_layers; ++each) {
    for (tensor::KvPart part : {tensor::KvPart::k, tensor::KvPart::v}) {
      for (std::size_t i = 0; i < units; ++i) {
        const int inside = static_cast<int>(i) % block_units;
        std::memcpy(decode->unit(each, part, target_blocks[i / block_units], inside),
                    prefill->unit(each, part, source_blocks[i / block_units], inside),
                    decode->unit_bytes());
      }
    }
  }
  whole(10);
  ASSERT_TRUE(prefill->wait_for([](const auto& s) { return s.failed.size() == 1; }));
  EXPECT_TRUE(decode->seen().verified.empty());
  EXPECT_EQ(decode->seen().received_bytes, 0U);
  EXPECT_EQ(prefill->seen().sent_bytes, 0U);
  expect_all_let_go(10);
}

/// Takes offers and never finishes receiving them, unless it is told to.
class Stalled final : public transport::Transport {
 public:
  explicit Stalled(std::unique_ptr<transport::Transport> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  std::string address() const override { return inner_->address(); }
  Result<void> register_memory(tensor::SharedBuffer& memory) override {
    return inner_->register_memory(memory);
  }
  Result<transport::PeerId> connect(std::string_view address, transport::PairToken token) override {
    return inner_->connect(address, token);
  }
  transport::PeerId expect(transport::PairToken token) override { return inner_->expect(token); }
  void close(transport::PeerId peer) override { inner_->close(peer); }
  Result<void> send(transport::SendId id, transport::PeerId peer, std::span<const std::byte> header,
                    std::span<const transport::Extent> extents) override {
    return inner_->send(id, peer, header, extents);
  }
  void accept(transport::OfferId, std::span<const transport::Extent>) override { ++accepted; }
  void refuse(transport::OfferId offer) override { inner_->refuse(offer); }
  void cancel_send(transport::SendId id) override { inner_->cancel_send(id); }
  void cancel_receive(transport::OfferId offer) override {
    inner_->refuse(offer);
    done_.emplace_back(transport::ReceiveDone{offer, transport::Status::cancelled});
  }
  void poll(Duration max_wait, std::vector<transport::Event>& events) override {
    inner_->poll(max_wait, events);
    events.insert(events.end(), done_.begin(), done_.end());
    done_.clear();
  }
  int arm() override { return done_.empty() ? inner_->arm() : -1; }
  void wake() override { inner_->wake(); }

  std::atomic<int> accepted = 0;

 private:
  std::unique_ptr<transport::Transport> inner_;
  std::vector<transport::Event> done_;
};

TEST_P(DriverFailure, AGrantIsNotClosedWhileAReceiveIntoItIsOpen) {  // quarantine
  auto stalled = std::make_unique<Stalled>(make({}));
  Stalled& receiving = *stalled;
  start(make({}), std::move(stalled));
  begin();
  open(10);
  target(10);
  layer(0);
  // The offer was taken when another grant, that was closed later, is closed.
  for (std::uint64_t id = 11; receiving.accepted == 0 && id < 100'000; ++id) {
    key.request.low = id;
    open(id);
    decode->command(CloseGrant{id});
    ASSERT_TRUE(decode->wait_for([&](const auto& s) { return s.closed.size() == id - 10; }));
  }
  ASSERT_GT(receiving.accepted, 0);
  EXPECT_THAT(decode->seen().closed, testing::Not(testing::Contains(10)));
  decode->command(CloseGrant{10});
  EXPECT_TRUE(decode->wait_for([](const auto& s) { return s.closed.back() == 10; }));
  EXPECT_EQ(decode->seen().received_bytes, 0U);
}

TEST_P(DriverFailure, OneSideMaySendAndReceiveAtOnce) {
  start();
  // The other way round on a second link: what decodes hands over to what prefills.
  const LinkId back(2);
  const RequestId token{5, 6};
  EXPECT_TRUE(prefill->driver().post(ExpectLink{back, prefill->transport(), token, {7, 8}}));
  ASSERT_TRUE(prefill->wait_for([](const auto& s) { return s.expected.size() == 1; }));
  protocol::DataLink data{
      prefill->transport(), prefill->driver().addresses()[0].second, token, {7, 8}, ""};
  EXPECT_TRUE(decode->driver().post(ConnectLink{back, NodeId("p"), Epoch(66), data}));
  begin();
  open(10);
  const protocol::AttemptKey other{{2, 2}, {1, 1}};
  const std::vector<std::int32_t> free_blocks = {3, 4, 5};
  protocol::Grant away = grant(20);
  away.groups[0].slots = {{3, 3, 9}};
  prefill->command(OpenGrant{other, away, {{block_units, 0, free_blocks}}});
  decode->command(
      BeginSource{SourceId(6), other, length, {{block_units, 0, source_blocks}}, monotonic_now()});
  target(10);
  decode->command(SetTarget{SourceId(6), other, NodeId("p"), Epoch(66), away});
  for (std::uint32_t each = 0; each < arena_layers; ++each) {
    layer(each);
    decode->command(LayerReady{SourceId(6), each, length, monotonic_now()});
  }
  commit();
  CommitSource back_commit;
  back_commit.source = SourceId(6);
  back_commit.tokens.ids = {8};
  decode->command(std::move(back_commit));
  ASSERT_TRUE(decode->wait_for([](const auto& s) { return s.verified.size() == 1; }));
  EXPECT_TRUE(prefill->wait_for([](const auto& s) { return s.verified.size() == 1; }));
  EXPECT_TRUE(arrived());
}

TEST_P(DriverFailure, ACommandWakesAThreadThatSleeps) {  // P5
  start();
  const Instant begun = monotonic_now();
  constexpr std::uint64_t rounds = 40;
  for (std::uint64_t id = 100; id < 100 + rounds; ++id) {
    std::this_thread::sleep_for(milliseconds(1));  // longer than it spins
    open(id);
    decode->command(CloseGrant{id});
    ASSERT_TRUE(decode->wait_for([&](const auto& s) { return s.closed.size() == id - 99; }));
  }
  // Unwoken it sleeps for 50 ms, each time.
  EXPECT_LT(monotonic_now() - begun, rounds * milliseconds(50) / 2);
}

INSTANTIATE_TEST_SUITE_P(Transports, DriverFailure, testing::Values("loopback", "shm"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace baton::handoff

// Ends of a request on a prefill node, from every state: afterwards nothing is held (HNG-09).
#include "prefill_fixture.h"

namespace baton::prefill_node {
namespace {

enum class At : std::uint8_t {
  queued,
  computing,  ///< between two layers
  between_chunks,
  sampled,
  sending,
  failed,
  handed_over,
  finished,
};

class PrefillEnd : public PrefillFixture,
                   public testing::WithParamInterface<std::tuple<At, worker::EndBy>> {
 protected:
  void reach(At state) {
    prefill(key(1), state == At::between_chunks ? 50 : 20);
    if (state == At::queued) return;
    if (state == At::computing) {
      begin_step();
      layer(0);
      return;
    }
    if (state == At::sending || state == At::failed || state == At::handed_over) target(key(1));
    step(state == At::finished ? worker::end_id : worker::sampled_id);
    if (state == At::failed) {
      event(handoff::SourceFailed{source(), key(1), Reason::worker_lost, "", {}});
    }
    if (state == At::handed_over) accept(key(1));
  }
};

TEST_P(PrefillEnd, GivesEverythingBack) {
  const auto [state, by] = GetParam();
  connect(router);
  reach(state);
  end(by);
  EXPECT_TRUE(core_.idle());
  if (state == At::computing) {
    layer(1);
    end_step();
  }
  // Blocks of a source stay pinned until the transport says that no send is open.
  const auto sources = commands<handoff::BeginSource>();
  if (!sources.empty()) {
    EXPECT_LT(core_.pools().available_blocks(0), 8);
    for (const auto& each : sources) idle(each.source);
  }
  expect_baseline();
  idle(handoff::SourceId(1));  // a second time does nothing
  expect_baseline();
}

INSTANTIATE_TEST_SUITE_P(
    EveryState, PrefillEnd,
    testing::Combine(testing::Values(At::queued, At::computing, At::between_chunks, At::sampled,
                                     At::sending, At::failed, At::handed_over, At::finished),
                     testing::ValuesIn(worker::every_end)));

TEST_F(PrefillFixture, LeasesRunOutWhileNothingIsComputed) {  // HNG-04
  for (std::uint64_t i = 1; i <= 4; ++i) prefill(key(i));
  for (int i = 0; i < 4; ++i) step();
  EXPECT_EQ(core_.pools().available_blocks(0), 0);
  pass(5s);
  EXPECT_EQ(counted(Countable::lease_expired), 4);
  for (const auto& each : commands<handoff::BeginSource>()) idle(each.source);
  expect_baseline();
}

TEST_F(PrefillFixture, HeartbeatsKeepALease) {
  prefill(key(1));
  for (int i = 0; i < 10; ++i) {
    pass(4s);
    say(protocol::Heartbeat{5000});
  }
  EXPECT_FALSE(core_.idle());
  pass(5s);
  EXPECT_TRUE(core_.idle());
}

TEST_F(PrefillFixture, AnEarlierLifeOfARouterIsNotHeard) {
  const handoff::OwnerRef reborn{NodeId("r"), Epoch(2)};
  connect(router);
  connect(reborn);
  say(router, protocol::Prefill{key(1), work(), 5000, true});
  EXPECT_TRUE(core_.idle());
  say(reborn, protocol::Prefill{key(2), work(), 5000, true});
  EXPECT_FALSE(core_.idle());
}

TEST_F(PrefillFixture, AnotherRoutersUnknownFreesNothing) {
  const handoff::OwnerRef other{NodeId("r2"), Epoch(9)};
  prefill(key(1));
  say(other, protocol::Unknown{{key(1)}});
  EXPECT_FALSE(core_.idle());
  EXPECT_TRUE(core_.inventory(other).empty());
  EXPECT_THAT(core_.inventory(router), testing::ElementsAre(key(1)));
}

TEST_F(PrefillFixture, UnknownForAnOlderAttemptFreesNothing) {
  prefill(key(1, 2, 2));
  say(protocol::Unknown{{key(1, 1, 1)}});
  EXPECT_FALSE(core_.idle());
}

TEST_F(PrefillFixture, AReturningRouterIsToldAgain) {
  prefill(key(1));
  target(key(1));
  step();
  accept(key(1));
  forget();
  connect(router);
  EXPECT_EQ(told<protocol::Tokens>().size(), 1U);
  EXPECT_EQ(told<protocol::HandoffEnded>().size(), 1U);
}

TEST_F(PrefillFixture, ACancelledRowsTokenIsNotTold) {
  prefill(key(1));
  begin_step();
  layer(0);
  say(protocol::Cancel{key(1)});
  EXPECT_TRUE(core_.cancelled(plan.prefill[0].sequence));
  layer(1);
  end_step();
  EXPECT_TRUE(told<protocol::Tokens>().empty());
  EXPECT_TRUE(commands<handoff::CommitSource>().empty());
}

TEST_F(PrefillFixture, AStepThatRowsLeftTeachesNothing) {
  prefill(key(1));
  const Duration by_the_prior = core_.load().backlog;
  begin_step();
  say(protocol::Cancel{key(1)});
  end_step();
  prefill(key(2));
  EXPECT_EQ(core_.load().backlog, by_the_prior);
  step();
  prefill(key(3));
  EXPECT_NE(core_.load().backlog, by_the_prior);
}

TEST_F(PrefillFixture, ACancelTouchesNoOtherRequestOfTheStep) {  // HNG-23
  prefill(key(1));
  prefill(key(2));
  begin_step();
  ASSERT_EQ(plan.prefill.size(), 2U);
  layer(0);
  say(protocol::Cancel{key(1)});
  layer(1);
  end_step();
  ASSERT_EQ(told<protocol::Tokens>().size(), 1U);
  EXPECT_EQ(told<protocol::Tokens>()[0].key, key(2));
}

}  // namespace
}  // namespace baton::prefill_node

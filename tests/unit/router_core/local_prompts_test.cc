// Prompts that a decode node computes itself, as the router sees them.
#include "table_fixture.h"

namespace baton::router {
namespace {

using testing::ElementsAre;

class LocalPrompts : public TableFixture {
 protected:
  LocalPrompts() { prefill_suffix_tokens = 8; }
  static protocol::AttemptKey key(RequestId id, std::uint32_t leg = 1) { return {id, {leg, leg}}; }
  /// The decode node has taken the prompt and sends token 0.
  void computed(const std::string& node, RequestId id, std::uint32_t leg = 1) {
    say(node, protocol::Owned{key(id, leg), 0});
    protocol::Tokens first = tokens(key(id, leg), 0, {20});
    first.times.queue = milliseconds(3);
    first.times.prefill = milliseconds(5);
    first.cached_tokens = 2;
    say(node, first);
  }
};

TEST_F(LocalPrompts, TheDecodeNodeIsAskedAloneAndServesFromTokenZero) {
  up("p0");
  up("d0");
  const RequestId id = submit();
  EXPECT_TRUE(last<protocol::Reserve>("d0").may_compute);
  EXPECT_EQ(count<protocol::Prefill>("p0"), 0U);
  computed("d0", id);
  say("d0", tokens(key(id), 1, {21}));
  say("d0", finished(key(id), 2));
  EXPECT_THAT(delivered(id), ElementsAre(20, 21));
  ASSERT_TRUE(ends.contains(id));
  const RequestFacts& facts = ends[id].facts;
  EXPECT_EQ(facts.times.queue, milliseconds(3));
  EXPECT_EQ(facts.times.prefill, milliseconds(5));
  EXPECT_EQ(facts.cached_tokens, 2);
  EXPECT_EQ(facts.prefill_node, NodeId("d0"));
  EXPECT_EQ(facts.attempts, 1);
  EXPECT_EQ(count<protocol::Prefill>("p0") + count<protocol::Target>("p0"), 0U);
}

TEST_F(LocalPrompts, TheWaitForSpaceIsQueueing) {  // P8
  up("d0");
  const RequestId id = submit();
  say("d0", protocol::Refused{key(id), Reason::no_space, "", 50});
  pass(milliseconds(50));
  const protocol::AttemptKey again{id, {1, 2}};
  EXPECT_EQ(last<protocol::Reserve>("d0").key, again);
  say("d0", protocol::Owned{again, 0});
  protocol::Tokens first = tokens(again, 0, {20});
  first.times.queue = milliseconds(3);
  say("d0", first);
  say("d0", finished(again, 1));
  ASSERT_TRUE(ends.contains(id));
  EXPECT_EQ(ends[id].facts.times.queue, milliseconds(53));
}

TEST_F(LocalPrompts, AnAnswerBeforeTokenZeroLeavesItsTimesToTokenZero) {  // P8
  up("d0");
  const RequestId id = submit();
  say("d0", protocol::Owned{key(id), 0});
  say("d0", tokens(key(id), 0, {}));
  computed("d0", id);
  say("d0", finished(key(id), 1));
  ASSERT_TRUE(ends.contains(id));
  EXPECT_EQ(ends[id].facts.times.prefill, milliseconds(5));
}

TEST_F(LocalPrompts, TokensThatAreTooEarlyToBeKeptAreAskedForAgain) {
  up("d0");
  const RequestId id = submit(1, 1000);
  say("d0", protocol::Owned{key(id), 0});
  say("d0", tokens(key(id), 600, {20}));
  EXPECT_EQ(last<protocol::Resume>("d0").next_index, 0);
}

TEST_F(LocalPrompts, AGrantInsteadBringsInAPrefillNode) {
  up("p0");
  up("d0");
  const RequestId id = submit();
  pass(milliseconds(4));
  say("d0", protocol::Granted{key(id), grant()});
  EXPECT_EQ(count<protocol::Prefill>("p0"), 1U);
  EXPECT_EQ(count<protocol::Target>("p0"), 1U);
  decoding(id);
  say("d0", finished(key(id), 1));
  ASSERT_TRUE(ends.contains(id));
  EXPECT_EQ(ends[id].facts.times.queue, milliseconds(4));
  EXPECT_EQ(ends[id].facts.prefill_node, NodeId("p0"));
}

TEST_F(LocalPrompts, AGrantWithoutAnyPrefillNodeWaitsForOne) {
  up("p0");
  up("d0");
  const RequestId id = submit();
  down("p0");
  say("d0", protocol::Granted{key(id), grant()});
  EXPECT_EQ(count<protocol::Cancel>("d0"), 1U);
  EXPECT_TRUE(last<protocol::Reserve>("d0").may_compute);  // nobody else is there to ask
  EXPECT_FALSE(ends.contains(id));
}

TEST_F(LocalPrompts, WithoutPrefillNodesTheyNeedNone) {
  up("d0");
  const RequestId id = submit(1, 1);
  EXPECT_TRUE(last<protocol::Reserve>("d0").may_compute);
  computed("d0", id);
  say("d0", finished(key(id), 1));
  EXPECT_THAT(delivered(id), ElementsAre(20));
  EXPECT_TRUE(ends.contains(id));
}

TEST_F(LocalPrompts, ALostDecodeNodeIsReplacedBeforeAndAfterItsAnswer) {
  up("p0");
  up("d0");
  const RequestId before = submit(1);
  const RequestId after = submit(2);
  computed("d0", after);
  up("d1");
  down("d0");
  EXPECT_EQ(last<protocol::Reserve>("d1").key.attempt.decode_leg, 2U);
  EXPECT_EQ(count<protocol::Reserve>("d1"), 2U);
  computed("d1", before, 2);  // both legs of its key: the router compares the decode leg
  say("d1", protocol::Owned{key(after, 2), 1});
  say("d1", tokens(key(after, 2), 1, {21}));
  EXPECT_THAT(delivered(after), ElementsAre(20, 21));
  EXPECT_THAT(delivered(before), ElementsAre(20));
}

TEST_F(LocalPrompts, ThoseLostWhileTheyMayComputeAreCounted) {
  up("d0");
  const RequestId id = submit();
  for (const char* next : {"d1", "d2", "d3"}) {
    const std::string asked = node_of<protocol::Reserve>(id);
    up(next);
    down(asked);
  }
  EXPECT_EQ(failure(id), Reason::worker_lost);
}

TEST_F(LocalPrompts, ALongComputationIsBoundByTheRequestsDeadlineAlone) {
  up("d0");
  const RequestId id = submit();
  say("d0", protocol::Owned{key(id), 0});
  pass(seconds(120));
  EXPECT_FALSE(ends.contains(id));
  EXPECT_TRUE(attempts.empty());
  pass(seconds(600));
  EXPECT_EQ(failure(id), Reason::deadline_exceeded);
  EXPECT_EQ(count<protocol::Cancel>("d0"), 1U);
}

TEST_F(LocalPrompts, ALeavingClientCancelsTheDecodeNodeAlone) {
  up("p0");
  up("d0");
  const RequestId id = submit();
  drop(id);
  EXPECT_EQ(count<protocol::Cancel>("d0"), 1U);
  EXPECT_EQ(count<protocol::Cancel>("p0"), 0U);
}

TEST_F(LocalPrompts, AnEndedConnectionIsContinuedWhereItStood) {
  up("p0");
  up("d0");
  const RequestId id = submit();
  computed("d0", id);
  down("d0");
  up("d0");
  EXPECT_EQ(last<protocol::Resume>("d0").next_index, 1);
  EXPECT_EQ(count<protocol::Reserve>("d0"), 1U);
}

TEST_F(LocalPrompts, WhatTheDecodeNodeForgetsIsAskedForAgain) {
  up("d0");
  const RequestId id = submit();
  say("d0", protocol::Owned{key(id), 0});
  say("d0", protocol::Inventory{});
  say("d0", protocol::Inventory{});
  EXPECT_THAT(attempts, ElementsAre(Reason::worker_lost));
  EXPECT_EQ(last<protocol::Reserve>("d0").key, key(id, 2));
}

TEST_F(LocalPrompts, TheNextTurnOfALongConversationIsTriedAloneToo) {
  up("p0");
  up("d0");
  Submission first = submission(1);
  first.work.prompt_ids.assign(200, 5);
  ASSERT_TRUE(table.submit(first, now).has_value());
  collect();
  EXPECT_EQ(count<protocol::Prefill>("p0"), 1U);  // long, and never seen
  protocol::Grant granted = grant();
  granted.length = 200;
  say("d0", protocol::Granted{key(first.id), granted});
  say("p0", tokens(key(first.id), 0, {20}));
  say("p0", handed_over(key(first.id)));
  say("d0", protocol::Owned{key(first.id), 0});
  Submission second = submission(2);
  second.work.prompt_ids.assign(200, 5);
  ASSERT_TRUE(table.submit(second, now).has_value());
  collect();
  EXPECT_EQ(count<protocol::Prefill>("p0"), 1U);
  EXPECT_TRUE(last<protocol::Reserve>("d0").may_compute);
}

}  // namespace
}  // namespace baton::router

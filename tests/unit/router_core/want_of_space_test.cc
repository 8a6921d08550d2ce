// Decode workers that refuse for want of blocks: who is asked next, when, and who is left.
#include "table_fixture.h"

namespace baton::router {
namespace {

using WantOfSpace = OneRequest;

TEST_F(WantOfSpace, ADecodeWorkerWithoutSpaceIsAskedAgainAfterItsHint) {
  say("d0", protocol::Refused{key, Reason::no_space, "", 50});
  pass(milliseconds(49));
  EXPECT_EQ(count<protocol::Reserve>("d0"), 1U);
  pass(milliseconds(1));
  EXPECT_EQ(last<protocol::Reserve>("d0").key.attempt, (Attempt{1, 2}));
  EXPECT_EQ(count<protocol::Prefill>("p0"), 1U);
}

TEST_F(WantOfSpace, AGrantThatWasTakenBackIsAskedForAgainWithAnotherTarget) {
  say("d0", protocol::Granted{key, grant()});
  EXPECT_FALSE(last<protocol::Reserve>("d0").prompt_ready);
  say("d0", protocol::Refused{key, Reason::no_space, "for another", 50});
  say("p0", tokens(key, 0, {20}));
  pass(milliseconds(50));
  const auto again = last<protocol::Reserve>("d0");
  EXPECT_EQ(again.key.attempt, (Attempt{1, 2}));
  EXPECT_TRUE(again.prompt_ready);
  say("d0", protocol::Granted{again.key, grant()});
  EXPECT_EQ(last<protocol::Target>("p0").key, again.key);
  EXPECT_TRUE(attempts.empty());
}

TEST_F(WantOfSpace, TwoFullDecodeWorkersAreNotAskedInTurnsWithoutAPause) {
  up("d1");
  say("d0", protocol::Refused{key, Reason::no_space, "", 50});
  pass(milliseconds(1));
  EXPECT_EQ(count<protocol::Reserve>("d1"), 1U);  // the other one at once
  say("d1", protocol::Refused{{id, {1, 2}}, Reason::no_space, "", 50});
  pass(milliseconds(20));
  EXPECT_EQ(count<protocol::Reserve>("d0") + count<protocol::Reserve>("d1"), 2U);
  pass(milliseconds(30));
  EXPECT_EQ(count<protocol::Reserve>("d0") + count<protocol::Reserve>("d1"), 3U);
}

TEST_F(WantOfSpace, AGrantOfOneDecodeWorkerEndsTheWaitForSpaceOnTheOthers) {
  up("d1");
  say("d0", protocol::Refused{key, Reason::no_space, "", 50});
  pass(milliseconds(1));
  const protocol::AttemptKey second{id, {1, 2}};
  ASSERT_EQ(node_of<protocol::Reserve>(id), "d1");
  EXPECT_EQ(count<protocol::Cancel>("d0"), 0U);  // it keeps its place there
  say("d1", protocol::Granted{second, grant()});
  EXPECT_EQ(last<protocol::Cancel>("d0").key, second);
  EXPECT_EQ(count<protocol::Cancel>("d1"), 0U);
}

TEST_F(WantOfSpace, ARequestThatEndsWaitsForSpaceNowhere) {
  up("d1");
  say("d0", protocol::Refused{key, Reason::no_space, "", 50});
  pass(milliseconds(1));
  drop(id);
  EXPECT_EQ(count<protocol::Cancel>("d0"), 1U);
  EXPECT_EQ(count<protocol::Cancel>("d1"), 1U);
}

TEST_F(WantOfSpace, OfLongDurationEndsInATypedError) {  // HNG-28
  std::uint32_t leg = 1;
  for (int i = 0; i < 31 && ends.empty(); ++i) {
    say("d0", protocol::Refused{{id, {1, leg++}}, Reason::no_space, "", 1000});
    pass(seconds(1));
  }
  EXPECT_EQ(failure(id), Reason::overloaded);
  EXPECT_EQ(count<protocol::Cancel>("p0"), 1U);
}

/// d0 and d1 have refused, and the request waits at d1.
class WaitsAtOne : public WantOfSpace {
 protected:
  WaitsAtOne() {
    up("d1");
    report("d0", 0);
    report("d1", 500);
    say("d0", protocol::Refused{key, Reason::no_space, "", 500});
    pass(milliseconds(1));
    refuse();
    pass(milliseconds(500));
  }
  void report(const std::string& node, std::int64_t free_tokens) {
    protocol::Report message;
    message.load.capacity_tokens = 1000;
    message.load.free_tokens = free_tokens;
    say(node, message);
  }
  /// d1 does, and is asked again after its hint, or d0.
  void refuse() { say("d1", protocol::Refused{{id, {1, leg++}}, Reason::no_space, "", 500}); }
  std::uint32_t leg = 2;
};

TEST_F(WaitsAtOne, AndLeavesTheQueueOfTheOther) {
  EXPECT_EQ(last<protocol::Cancel>("d0").key.request, id);
  EXPECT_EQ(count<protocol::Cancel>("d1"), 0U);
  EXPECT_EQ(last<protocol::Reserve>("d1").key.attempt, (Attempt{1, 3}));
}

TEST_F(WaitsAtOne, AndMovesWhenTheOtherSaysThatItHasRoom) {
  for (int i = 0; i < 3; ++i) {
    refuse();
    pass(milliseconds(500));
  }
  EXPECT_EQ(count<protocol::Reserve>("d1"), 5U);
  EXPECT_EQ(count<protocol::Reserve>("d0"), 1U);
  report("d0", 400);
  refuse();
  EXPECT_EQ(last<protocol::Cancel>("d1").key.request, id);
  pass(milliseconds(500));
  EXPECT_EQ(last<protocol::Reserve>("d0").key.attempt, (Attempt{1, leg}));
}

TEST_F(WaitsAtOne, AndMovesWhenHalfOfItsTimeIsOver) {
  int asked = 0;
  for (; count<protocol::Reserve>("d0") == 1 && asked < 60; ++asked) {
    refuse();
    pass(milliseconds(500));
  }
  EXPECT_NEAR(asked, 30, 2);
}

TEST_F(WaitsAtOne, AndAsksTheOtherWhenThisOneCannotTakeIt) {
  say("d1", protocol::Refused{{id, {1, leg++}}, Reason::overloaded, "", 500});
  pass(milliseconds(500));
  EXPECT_EQ(last<protocol::Reserve>("d0").key.attempt, (Attempt{1, leg}));
}

}  // namespace
}  // namespace baton::router

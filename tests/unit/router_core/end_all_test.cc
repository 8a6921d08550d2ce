// What the table does with its requests when the router ends before they do.
#include "table_fixture.h"

namespace baton::router {
namespace {

class EndAll : public OneRequest {
 protected:
  void end_all() {
    table.end_all(Reason::draining, "the router is shutting down", now);
    collect();
  }
};

TEST_F(EndAll, EveryRequestEndsWithTheErrorWhateverItsState) {
  decoding(id);
  const RequestId placed = submit(2);
  down("p0");
  const RequestId queued = submit(3);
  end_all();
  for (const RequestId each : {id, placed, queued}) EXPECT_EQ(failure(each), Reason::draining);
  EXPECT_EQ(table.live(), 0U);
  EXPECT_EQ(table.queued(), 0U);
}

TEST_F(EndAll, WorkersAreToldThatNobodyWantsTheirWork) {
  decoding(id);
  end_all();
  EXPECT_EQ(last<protocol::Cancel>("d0").key, key);
}

TEST_F(EndAll, AnAnswerThatWaitsForItsFiguresOnlyIsComplete) {
  say("d0", protocol::Granted{key, grant()});
  say("p0", tokens(key, 0, {20}));
  say("d0", protocol::Owned{key, 0});
  say("d0", finished(key, 1));
  ASSERT_FALSE(ends.contains(id));
  end_all();
  EXPECT_EQ(ends.at(id).finish, FinishReason::length);
  EXPECT_FALSE(ends.at(id).error);
}

TEST_F(EndAll, AnAnswerWhoseLastTokenIsKnownIsComplete) {
  decoding(id);
  say("d0", tokens(key, 1, {21, 99}));
  end_all();
  EXPECT_EQ(ends.at(id).finish, FinishReason::stop);
  EXPECT_FALSE(ends.at(id).error);
}

}  // namespace
}  // namespace baton::router

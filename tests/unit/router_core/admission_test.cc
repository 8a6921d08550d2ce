// The queue of the table, and who is let in.
#include <algorithm>

#include "table_fixture.h"

namespace baton::router {
namespace {

TableLimits short_queue() {
  TableLimits limits;
  limits.queue = 8;
  limits.queue_wait = seconds(3);
  return limits;
}

class Admission : public TableFixture {
 protected:
  Admission() : TableFixture(short_queue()) {}
};

TEST_F(Admission, RequestsWaitForWorkersInABoundedQueue) {  // RTR-10
  int taken = 0;
  for (std::uint64_t i = 1; i <= 10; ++i) {
    const Result<void> result = table.submit(submission(i), now);
    taken += result ? 1 : 0;
    if (!result) {
      EXPECT_EQ(result.error().reason(), Reason::overloaded);
    }
  }
  EXPECT_EQ(taken, 8);
  pass(seconds(1));
  up("p0");
  up("d0");
  EXPECT_EQ(count<protocol::Prefill>("p0"), 8U);
  EXPECT_EQ(count<protocol::Reserve>("d0"), 8U);
  EXPECT_EQ(table.queued(), 0U);
}

TEST_F(Admission, WithoutWorkersTheWaitEndsWithNoWorker) {  // RTR-10
  for (std::uint64_t i = 1; i <= 8; ++i) submit(i);
  pass(milliseconds(2999));
  EXPECT_TRUE(ends.empty());
  pass(milliseconds(1));
  EXPECT_EQ(ends.size(), 8U);
  EXPECT_EQ(failure({1, 1}), Reason::no_worker);
  EXPECT_EQ(table.live(), 0U);
}

TEST_F(Admission, AfterAnyOrderOfArrivalsARequestIsPlaced) {  // RST-11
  std::vector<int> order = {0, 1, 2, 3, 4, 5};
  do {
    HandoffTable fresh({}, 1);
    std::map<std::string, bool> is_up;
    std::uint64_t number = 1;
    for (int event : order) {
      const std::string node = event < 3 ? "p0" : "d0";
      Worker worker;
      worker.node = NodeId(node);
      worker.role = event < 3 ? Role::prefill : Role::decode;
      worker.epoch = Epoch(1);
      if (event % 3 == 1) {
        fresh.worker_down({worker.node, worker.epoch}, now);
      } else {
        fresh.worker_up(worker, now);
      }
      is_up[node] = event % 3 != 1;
      fresh.take_effects();
      if (!is_up["p0"] || !is_up["d0"]) continue;
      ASSERT_TRUE(fresh.submit(submission(number++), now).has_value());
      EXPECT_EQ(fresh.queued(), 0U);
      EXPECT_EQ(fresh.take_effects().size(), 2U);  // Reserve and Prefill
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(Admission, AFullTableTakesNothing) {
  TableLimits limits;
  limits.requests = 1;
  HandoffTable small(limits, 1);
  ASSERT_TRUE(small.submit(submission(1), now).has_value());
  EXPECT_EQ(small.submit(submission(2), now).error().reason(), Reason::overloaded);
  EXPECT_EQ(small.live(), 1U);
}

TEST_F(Admission, AQueuedClientThatLeavesIsForgottenWithoutAWord) {  // HNG-22
  const RequestId id = submit();
  drop(id);
  up("p0");
  up("d0");
  EXPECT_EQ(count<protocol::Prefill>("p0"), 0U);
  EXPECT_TRUE(ends.empty());
}

TEST_F(Admission, DroppingAnUnknownRequestDoesNothing) {
  drop({1, 77});
  EXPECT_TRUE(sent.empty());
}

}  // namespace
}  // namespace baton::router

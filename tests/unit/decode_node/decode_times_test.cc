// Times and rates of decoding: from the commit accepted to the end of the first row, and from
// there.
#include "decode_fixture.h"

namespace baton::decode_node {
namespace {

TEST_F(DecodeFixture, TimesAreMeasuredFromTheAcceptedCommitAndTheFirstRow) {  // P8
  reserve(key(1), 20, 3);
  now += 40ms;  // the handoff's time, not ours
  verify(key(1));
  EXPECT_EQ(told<protocol::Tokens>().back().times, protocol::PhaseTimes{});
  now += 7ms;
  step();
  EXPECT_EQ(told<protocol::Tokens>().back().times.first_decode, 7ms);
  EXPECT_EQ(told<protocol::Tokens>().back().times.decode, 0ms);
  now += 5ms;
  step();
  EXPECT_EQ(told<protocol::Tokens>().back().times.first_decode, 7ms);
  EXPECT_EQ(told<protocol::Tokens>().back().times.decode, 5ms);
  EXPECT_EQ(told<protocol::Finished>().at(0).times.first_decode, 7ms);
  EXPECT_EQ(told<protocol::Finished>().at(0).times.decode, 5ms);
}

TEST_F(DecodeFixture, StepsThatWereMeasuredPredictTheNextOnes) {
  run(key(1));
  begin_step();
  const Duration prior = plan.predicted;
  EXPECT_LT(prior, 1ms);
  end_step();  // took 2 ms
  begin_step();
  EXPECT_GT(plan.predicted, 1ms);
}

}  // namespace
}  // namespace baton::decode_node

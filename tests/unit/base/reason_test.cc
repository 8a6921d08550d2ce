#include "baton/base/reason.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "baton/base/result.h"

namespace baton {
namespace {

TEST(Reason, NumbersOfANewerPeerAreNoReason) {
  EXPECT_EQ(reason_from_number(28), Reason::digest_mismatch);
  EXPECT_FALSE(reason_from_number(60'000).has_value());
}

TEST(Reason, EveryLabelIsUniqueAndEveryStatusIsAnHttpError) {
  std::set<std::string_view> labels;
  for (std::uint32_t number = 0; reason_from_number(number); ++number) {
    const ReasonInfo& entry = info(*reason_from_number(number));
    EXPECT_TRUE(labels.insert(entry.label).second) << entry.label;
    EXPECT_GE(entry.http_status, 400);
    EXPECT_LT(entry.http_status, 600);
  }
  EXPECT_GT(labels.size(), 30u);
}

Result<int> half_of(int value) {
  if (value % 2 != 0) return Error(Reason::invalid_request, "odd");
  return value / 2;
}

Result<int> quarter_of(int value) {
  BATON_ASSIGN(const int half, half_of(value));
  return half_of(half);
}

TEST(Result, AssignPassesTheFirstErrorOn) {
  EXPECT_EQ(quarter_of(12).value(), 3);
  EXPECT_EQ(quarter_of(6).error().message(), "odd");
}

}  // namespace
}  // namespace baton

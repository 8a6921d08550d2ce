#include "baton/protocol/unit_header.h"

#include <random>

#include <gtest/gtest.h>

namespace baton::protocol {
namespace {

UnitHeader header() {
  UnitHeader out;
  out.key = {{1, 2}, {3, 4}};
  out.to = Epoch(5);
  out.grant = 6;
  out.group = 7;
  out.layer = 8;
  out.first_unit = 9;
  out.units = 2;
  out.unit_bytes = 6144;
  out.slots = {{10, 11, 12}};
  out.bindings = {{13, 14}, {15, 16}, {17, 18}, {19, 20}};
  return out;
}

TEST(UnitHeader, SurvivesTheRoundTrip) {
  const Result<UnitHeader> back = decode_unit_header(encode(header()));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(*back, header());
}

TEST(UnitHeader, R13_EveryTruncationIsATypedError) {
  const std::vector<std::byte> bytes = encode(header());
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_FALSE(decode_unit_header({bytes.data(), cut}).has_value()) << cut;
  }
}

TEST(UnitHeader, R13_HostileCountsAllocateNothing) {
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes = encode(header());
    for (int i = 0; i < 4; ++i) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    const Result<UnitHeader> result = decode_unit_header(bytes);
    if (result) {
      EXPECT_LE(result->units, max_units_per_message);
      EXPECT_EQ(result->bindings.size(), 2 * result->units);
    }
  }
}

}  // namespace
}  // namespace baton::protocol

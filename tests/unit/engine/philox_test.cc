#include "baton/engine/philox.h"

#include <set>

#include <gtest/gtest.h>

namespace baton::engine {
namespace {

using Words = std::array<std::uint32_t, 4>;

// From kat_vectors of the Random123 distribution, "philox4x32 10".
TEST(Philox, GivesThePublishedVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DrawsDependOnSeedChoiceAndIndexAloneAndAreUniform) {
  EXPECT_EQ(uniform_draw(7, 0, 3), uniform_draw(7, 0, 3));
  std::set<double> draws;
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::uint32_t choice = 0; choice < 4; ++choice) {
      for (std::uint64_t index = 0; index < 100; ++index) {
        const double u = uniform_draw(seed, choice, index);
        ASSERT_GE(u, 0);
        ASSERT_LT(u, 1);
        draws.insert(u);
        sum += u;
      }
    }
  }
  EXPECT_EQ(draws.size(), 4'000u);
  EXPECT_NEAR(sum / 4'000, 0.5, 0.02);
}

TEST(Philox, HighHalvesOfSeedAndIndexCount) {
  EXPECT_NE(uniform_draw(1, 0, 0), uniform_draw(1 + (std::uint64_t{1} << 32), 0, 0));
  EXPECT_NE(uniform_draw(1, 0, 1), uniform_draw(1, 0, 1 + (std::uint64_t{1} << 32)));
}

}  // namespace
}  // namespace baton::engine

#include "baton/protocol/fingerprint.h"

#include <gtest/gtest.h>

namespace baton::protocol {
namespace {

TEST(Fingerprint, FieldBordersCount) {
  const Fingerprint one(Fingerprint::Fields{{"ab", "c"}});
  const Fingerprint two(Fingerprint::Fields{{"a", "bc"}});
  EXPECT_NE(one.digest(), two.digest());
  EXPECT_EQ(one.digest(), Fingerprint(Fingerprint::Fields{{"ab", "c"}}).digest());
}

TEST(Fingerprint, ADifferenceIsShownFieldByFieldWithBothValues) {
  const Fingerprint::Fields ours = {{"layers", "30"}, {"cache_dtype", "bf16"}};
  const Fingerprint::Fields theirs = {{"layers", "32"}, {"cache_dtype", "bf16"}, {"x", "1"}};
  EXPECT_EQ(difference(ours, ours), "");
  EXPECT_EQ(difference(ours, theirs), "layers: ours 30, theirs 32; x: ours (absent), theirs 1");
}

TEST(Fingerprint, Sha256IsTheStandardOne) {
  EXPECT_EQ(sha256("abc").to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace baton::protocol

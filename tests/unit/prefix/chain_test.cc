#include "baton/prefix/chain.h"

#include <numeric>
#include <set>

#include <gtest/gtest.h>

namespace baton::prefix {
namespace {

std::vector<TokenId> ids(std::size_t count, TokenId first = 0) {
  std::vector<TokenId> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

Digest256 fingerprint(std::uint8_t fill) {
  Digest256 out;
  out.bytes.fill(fill);
  return out;
}

std::vector<Key> keys_of(const Key& root, std::span<const TokenId> of, int block_positions = 16) {
  Chain chain(root, block_positions);
  chain.extend(of);
  return {chain.keys().begin(), chain.keys().end()};
}

// Computed once with Python's hmac and hashlib: workers of different builds must agree.
TEST(PrefixChain, PFX06RootAndKeysAreTheGoldenOnes) {
  const Key base = root("secret", fingerprint(7), "");
  EXPECT_EQ(base.value().to_string(),
            "1c3cb3e19c33bcc3ab19053d743163355d91582c8768e842d16896725d3ac23a");
  const Key salted = root("secret", fingerprint(7), "tenant");
  EXPECT_EQ(salted.value().to_string(),
            "a5d18f410259e2d25ddd479bc1be47a81f2104947b4ad3a9d190b6209029a1d2");
  const std::vector<Key> keys = keys_of(base, ids(40, 1000), 16);
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].value().to_string(),
            "632f91919474214d2d5b0bc59d6eb4eb63f9cc1a787e947f77c6d6e39f3a0038");
  EXPECT_EQ(keys[1].value().to_string(),
            "60114331508da9cc30420899e1bdce51aa0eeb74836c10cc262bb10cc859fa67");
}

TEST(PrefixChain, SecretFingerprintAndSaltEachMakeAnotherRoot) {
  const std::set<Key> roots = {
      root("", fingerprint(1), ""),  root("a", fingerprint(1), ""),  root("b", fingerprint(1), ""),
      root("a", fingerprint(2), ""), root("a", fingerprint(1), "x"), root("a", fingerprint(1), "y"),
  };
  EXPECT_EQ(roots.size(), 6u);
}

TEST(PrefixChain, PFX08AKeyDependsOnNothingButRootAndIds) {
  const Key base = root("s", fingerprint(1), "");
  const std::vector<TokenId> all = ids(200);
  const std::vector<Key> once = keys_of(base, all);
  Chain grown(base, 16);
  for (std::size_t count = 0; count <= 200; ++count) {
    grown.extend(std::span(all).first(count));
    ASSERT_EQ(grown.keys().size(), count / 16);
  }
  EXPECT_TRUE(std::equal(once.begin(), once.end(), grown.keys().begin(), grown.keys().end()));
}

TEST(PrefixChain, WorkersWithOtherBlockSizesAgreeWhereTheirBlocksEndTogether) {
  const Key base = root("s", fingerprint(1), "");
  const std::vector<Key> small = keys_of(base, ids(256), 16);
  const std::vector<Key> large = keys_of(base, ids(256), 64);
  ASSERT_EQ(large.size(), 4u);
  for (std::size_t i = 0; i < large.size(); ++i) EXPECT_EQ(large[i], small[4 * i + 3]);
}

TEST(PrefixChain, OneIdChangedChangesItsKeyAndAllAfterIt) {
  const Key base = root("s", fingerprint(1), "");
  const std::vector<Key> whole = keys_of(base, ids(160));
  for (const std::size_t changed : {0u, 15u, 16u, 77u, 159u}) {
    std::vector<TokenId> other = ids(160);
    other[changed] += 1 << 20;
    const std::vector<Key> keys = keys_of(base, other);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(keys[i] == whole[i], i < changed / 16) << changed << " " << i;
    }
  }
}

TEST(PrefixChain, TheSameBlockAfterAnotherOneHasAnotherKey) {
  const Key base = root("s", fingerprint(1), "");
  std::vector<TokenId> twice = ids(16);
  const std::vector<TokenId> again = ids(16);
  twice.insert(twice.end(), again.begin(), again.end());
  const std::vector<Key> keys = keys_of(base, twice);
  EXPECT_NE(keys[0], keys[1]);
}

}  // namespace
}  // namespace baton::prefix

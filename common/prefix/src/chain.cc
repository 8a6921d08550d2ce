#include "baton/prefix/chain.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "baton/base/check.h"

namespace baton::prefix {
namespace {

constexpr std::string_view revision = "baton prefix 1";

void append_sized(std::string& out, std::string_view bytes) {
  for (int shift = 0; shift < 64; shift += 8) {
    out.push_back(static_cast<char>((static_cast<std::uint64_t>(bytes.size()) >> shift) & 0xff));
  }
  out.append(bytes);
}

/// SHA-256 with its context made once for many digests.
class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) { BATON_CHECK(context_ != nullptr); }

  Digest256 operator()(std::span<const std::uint8_t> bytes) {
    Digest256 out;
    const bool done = EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1 &&
                      EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1 &&
                      EVP_DigestFinal_ex(context_.get(), out.bytes.data(), nullptr) == 1;
    BATON_CHECK(done);
    return out;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

// The key before it and the link's ids, little-endian: always of one length, so that no two
// different links have the same bytes.
using LinkBytes = std::array<std::uint8_t, 32 + 4 * link_positions>;

LinkBytes link_bytes(const Key& before, std::span<const TokenId> ids) {
  LinkBytes bytes;
  auto at = std::copy(before.value().bytes.begin(), before.value().bytes.end(), bytes.begin());
  for (const TokenId id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      *at++ = static_cast<std::uint8_t>(static_cast<std::uint32_t>(id) >> shift);
    }
  }
  return bytes;
}

}  // namespace

Key root(std::string_view secret, const Digest256& fingerprint, std::string_view salt) {
  std::string message(revision);
  message.append(reinterpret_cast<const char*>(fingerprint.bytes.data()), fingerprint.bytes.size());
  append_sized(message, salt);
  Digest256 digest;
  unsigned int length = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(message.data());
  const unsigned char* done =
      HMAC(EVP_sha256(), secret.empty() ? "" : secret.data(), static_cast<int>(secret.size()),
           bytes, message.size(), digest.bytes.data(), &length);
  BATON_CHECK(done != nullptr && length == digest.bytes.size());
  return Key(digest);
}

Chain::Chain(const Key& root, int block_positions)
    : last_(root), block_positions_(block_positions) {
  BATON_CHECK(block_positions > 0 && block_positions % link_positions == 0);
}

void Chain::extend(std::span<const TokenId> ids) {
  const std::size_t block = static_cast<std::size_t>(block_positions_);
  if (ids.size() / block <= keys_.size()) return;
  Sha256 sha256;
  while (ids.size() / block > keys_.size()) {
    const std::size_t begin = keys_.size() * block;
    for (std::size_t at = begin; at < begin + block; at += link_positions) {
      last_ = Key(sha256(link_bytes(last_, ids.subspan(at, link_positions))));
    }
    keys_.push_back(last_);
  }
}

}  // namespace baton::prefix

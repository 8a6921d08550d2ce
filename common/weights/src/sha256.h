// SHA-256 of bytes that come in pieces.
#pragma once

#include <memory>

#include <openssl/evp.h>

#include "baton/base/check.h"
#include "baton/base/ids.h"

namespace baton::weights {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    BATON_CHECK(context_ != nullptr);
    BATON_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void update(const void* data, std::size_t bytes) {
    BATON_CHECK(EVP_DigestUpdate(context_.get(), data, bytes) == 1);
  }
  Digest256 finish() {
    Digest256 digest;
    unsigned int bytes = 0;
    BATON_CHECK(EVP_DigestFinal_ex(context_.get(), digest.bytes.data(), &bytes) == 1);
    BATON_CHECK(bytes == digest.bytes.size());
    return digest;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace baton::weights

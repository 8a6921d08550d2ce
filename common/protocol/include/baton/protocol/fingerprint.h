// What makes two caches interchangeable: SHA-256 over typed, length-prefixed fields.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/result.h"

namespace baton::protocol {

/// Ordered (name, value) pairs; a value is text in a canonical form chosen by whoever adds it.
class Fingerprint {
 public:
  using Fields = std::vector<std::pair<std::string, std::string>>;

  Fingerprint() = default;
  explicit Fingerprint(Fields fields);

  const Digest256& digest() const { return digest_; }
  const Fields& fields() const { return fields_; }

 private:
  Fields fields_;
  Digest256 digest_;
};

/// One line: each field that differs with both values; empty when equal.
std::string difference(const Fingerprint::Fields& ours, const Fingerprint::Fields& theirs);

Digest256 sha256(std::string_view bytes);

}  // namespace baton::protocol

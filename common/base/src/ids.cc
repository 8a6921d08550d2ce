#include "baton/base/ids.h"

#include <sys/random.h>

#include "baton/base/check.h"

namespace baton {
namespace {

constexpr char hex_digits[] = "0123456789abcdef";

void append_hex(std::string& out, std::uint64_t value) {
  for (int shift = 60; shift >= 0; shift -= 4) out.push_back(hex_digits[(value >> shift) & 15]);
}

template <typename T>
T from_system_generator() {
  T value;
  BATON_CHECK(getrandom(&value, sizeof(value), 0) == static_cast<ssize_t>(sizeof(value)));
  return value;
}

}  // namespace

std::string RequestId::to_string() const {
  std::string out;
  append_hex(out, high);
  append_hex(out, low);
  return out;
}

std::string Digest128::to_string() const {
  std::string out;
  append_hex(out, high);
  append_hex(out, low);
  return out;
}

std::string Digest256::to_string() const {
  std::string out;
  for (std::uint8_t byte : bytes) {
    out.push_back(hex_digits[byte >> 4]);
    out.push_back(hex_digits[byte & 15]);
  }
  return out;
}

RequestId random_request_id() {
  return {from_system_generator<std::uint64_t>(), from_system_generator<std::uint64_t>()};
}

Epoch random_epoch() {
  // 0 means "none", so it is never drawn.
  return Epoch(from_system_generator<std::uint64_t>() | 1);
}

std::uint64_t random_seed() { return from_system_generator<std::uint64_t>(); }

}  // namespace baton

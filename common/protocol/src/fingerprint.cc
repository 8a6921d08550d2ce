#include "baton/protocol/fingerprint.h"

#include <map>

#include <openssl/sha.h>

namespace baton::protocol {
namespace {

void append_sized(std::string& out, std::string_view text) {
  for (int shift = 0; shift < 64; shift += 8) {
    out.push_back(static_cast<char>((static_cast<std::uint64_t>(text.size()) >> shift) & 0xff));
  }
  out.append(text);
}

Digest256 digest_of(const Fingerprint::Fields& fields) {
  std::string canonical = "baton fingerprint 1\n";
  for (const auto& [name, value] : fields) {
    append_sized(canonical, name);
    append_sized(canonical, value);
  }
  return sha256(canonical);
}

void append_difference(std::string& out, std::string_view name, std::string_view ours,
                       std::string_view theirs) {
  if (!out.empty()) out += "; ";
  out.append(name).append(": ours ").append(ours).append(", theirs ").append(theirs);
}

}  // namespace

Fingerprint::Fingerprint(Fields fields) : fields_(std::move(fields)), digest_(digest_of(fields_)) {}

std::string difference(const Fingerprint::Fields& ours, const Fingerprint::Fields& theirs) {
  std::map<std::string, std::string> rest(theirs.begin(), theirs.end());
  std::string out;
  for (const auto& [name, value] : ours) {
    const auto found = rest.find(name);
    if (found == rest.end()) {
      append_difference(out, name, value, "(absent)");
      continue;
    }
    if (found->second != value) append_difference(out, name, value, found->second);
    rest.erase(found);
  }
  for (const auto& [name, value] : rest) append_difference(out, name, "(absent)", value);
  return out;
}

Digest256 sha256(std::string_view bytes) {
  Digest256 digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.bytes.data());
  return digest;
}

}  // namespace baton::protocol

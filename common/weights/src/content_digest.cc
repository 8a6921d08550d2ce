#include "baton/weights/content_digest.h"

#include <array>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "sha256.h"

namespace baton::weights {
namespace {

namespace fs = std::filesystem;
using modelfile::FileIdentity;
using modelfile::OpenFile;

constexpr std::size_t read_bytes = 1 << 20;
/// A file changed this recently could change again within one tick of its time stamp.
constexpr std::int64_t settle_seconds = 2;

fs::path entry_path(const fs::path& cache, const FileIdentity& identity) {
  return cache / "digests" / fmt::format("{:x}-{:x}", identity.device, identity.inode);
}

/// One line: what the digest belongs to, the digest, and a checksum over both.
std::string entry_text(const FileIdentity& identity, const Digest256& digest) {
  const std::string body =
      fmt::format("baton-digest-1 {:x} {:x} {} {} {} {}", identity.device, identity.inode,
                  identity.size_bytes, identity.seconds, identity.nanoseconds, digest.to_string());
  Sha256 checksum;
  checksum.update(body.data(), body.size());
  return body + " " + checksum.finish().to_string() + "\n";
}

std::optional<Digest256> parse_digest(std::string_view hex) {
  Digest256 digest;
  if (hex.size() != 2 * digest.bytes.size()) return std::nullopt;
  const auto nibble = [](char c) {
    const std::size_t at = std::string_view("0123456789abcdef").find(c);
    return at == std::string_view::npos ? -1 : static_cast<int>(at);
  };
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) {
    const int high = nibble(hex[2 * i]);
    const int low = nibble(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return digest;
}

std::optional<Digest256> kept_digest(const fs::path& cache, const FileIdentity& identity) {
  std::ifstream stream(entry_path(cache, identity), std::ios::binary);
  std::array<char, 512> text{};
  stream.read(text.data(), text.size());
  const std::string_view found(text.data(), static_cast<std::size_t>(stream.gcount()));
  // The digest is the word before the last one; the whole text is then made anew and compared.
  const std::size_t last = found.rfind(' ');
  if (last == std::string_view::npos || last == 0) return std::nullopt;
  const std::size_t before = found.rfind(' ', last - 1);
  if (before == std::string_view::npos) return std::nullopt;
  const auto digest = parse_digest(found.substr(before + 1, last - before - 1));
  if (!digest || found != entry_text(identity, *digest)) return std::nullopt;
  return digest;
}

/// Written aside and renamed, so that a reader never sees half of it. Failures are ignored.
void keep_digest(const fs::path& cache, const FileIdentity& identity, const Digest256& digest) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (now.tv_sec - identity.seconds < settle_seconds) return;
  const fs::path entry = entry_path(cache, identity);
  std::error_code error;
  fs::create_directories(entry.parent_path(), error);
  if (error) return;
  const fs::path temporary = entry.string() + fmt::format(".{}", ::getpid());
  {
    std::ofstream stream(temporary, std::ios::binary | std::ios::trunc);
    stream << entry_text(identity, digest);
    if (!stream.flush()) return;
  }
  fs::rename(temporary, entry, error);
}

Result<Digest256> digest_of(const OpenFile& file) {
  Sha256 hash;
  std::vector<std::byte> buffer(read_bytes);
  std::uint64_t offset_bytes = 0;
  while (true) {
    BATON_ASSIGN(const std::size_t got, file.read_at(offset_bytes, buffer));
    if (got == 0) break;
    hash.update(buffer.data(), got);
    offset_bytes += got;
  }
  BATON_TRY(file.check_unchanged());
  return hash.finish();
}

}  // namespace

fs::path cache_directory() {
  const auto variable = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (fs::path own = variable("BATON_CACHE"); !own.empty()) return own;
  if (const fs::path shared = variable("XDG_CACHE_HOME"); !shared.empty()) return shared / "baton";
  if (const fs::path home = variable("HOME"); !home.empty()) return home / ".cache" / "baton";
  return {};
}

Result<Digest256> content_digest(const OpenFile& file, const fs::path& cache) {
  if (!cache.empty()) {
    if (const auto kept = kept_digest(cache, file.identity())) return *kept;
  }
  Result<Digest256> digest = digest_of(file);
  if (digest.has_error()) {
    return Error(digest.error().reason(),
                 fmt::format("{}: {}", file.path().string(), digest.error().message()));
  }
  if (!cache.empty()) keep_digest(cache, file.identity(), *digest);
  return digest;
}

}  // namespace baton::weights

// The file: a page of header, then the packed bytes. Native byte order: it never leaves the
// machine. The digest covers everything, so that a file that was cut short or changed is made anew.
#include "packed_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "baton/tensor/huge_pages.h"

namespace baton::weights {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t header_bytes = 4096;
constexpr std::array<char, 8> magic = {'B', 'A', 'T', 'O', 'N', 'P', 'K', '1'};
constexpr std::string_view suffix = ".packed";
constexpr std::string_view unfinished = ".partial";

struct Header {
  std::array<char, 8> magic{};
  std::uint64_t bytes = 0;
  std::uint64_t digest_high = 0;
  std::uint64_t digest_low = 0;

  friend bool operator==(const Header&, const Header&) = default;
};

Header header_of(std::span<const std::byte> packed) {
  const XXH128_hash_t digest = XXH3_128bits(packed.data(), packed.size());
  return {magic, packed.size(), digest.high64, digest.low64};
}

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// Room for one file more; what a killed process left unfinished goes first. To be called under the
/// lock: no unfinished file is in use then.
void make_room(const fs::path& folder) {
  struct Kept {
    fs::file_time_type used;
    fs::path path;
    bool operator<(const Kept& other) const { return used < other.used; }
  };
  std::vector<Kept> kept;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == unfinished) fs::remove(at->path(), error);
    if (at->path().extension() != suffix) continue;
    const fs::file_time_type used = at->last_write_time(error);
    if (!error) kept.push_back({used, at->path()});
  }
  if (kept.size() < most_packed_files) return;
  std::sort(kept.begin(), kept.end());
  for (std::size_t i = 0; i + most_packed_files <= kept.size(); ++i)
    fs::remove(kept[i].path, error);
}

}  // namespace

PackedFile::PackedFile(const fs::path& cache, const std::string& key, std::size_t bytes)
    : folder_(cache / "packed"),
      path_(folder_ / (key + std::string(suffix))),
      aside_(folder_ / (key + std::string(unfinished))),
      bytes_(bytes) {}

PackedFile::~PackedFile() {
  if (lock_ >= 0) ::close(lock_);
}

std::optional<PackedMemory> PackedFile::find() const {
  const Descriptor file(path_, O_RDONLY);
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return std::nullopt;
  if (static_cast<std::uint64_t>(status.st_size) != header_bytes + bytes_) return std::nullopt;
  std::byte* at = tensor::map_file(file.get(), header_bytes + bytes_, PROT_READ);
  if (at == nullptr) return std::nullopt;
  PackedMemory memory = PackedMemory::mapping(at, header_bytes + bytes_, header_bytes);
  Header header;
  std::memcpy(&header, at, sizeof header);
  if (header != header_of(memory.span())) return std::nullopt;
  ::futimens(file.get(), nullptr);  // used now: see make_room()
  return memory;
}

bool PackedFile::lock(Duration patience) {
  std::error_code error;
  fs::create_directories(folder_, error);
  // One lock for all keys: make_room() looks at every file.
  const fs::path path = folder_ / "lock";
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) return false;
  const Instant give_up = monotonic_now() + patience;
  while (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (monotonic_now() >= give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

std::optional<PackedMemory> PackedFile::begin() {
  make_room(folder_);
  // A new file: one of that name may still be mapped by a process that could not give it its name.
  const Descriptor file(aside_, O_RDWR | O_CREAT | O_EXCL);
  if (file.get() < 0) return std::nullopt;
  const std::size_t all = header_bytes + bytes_;
  // Reserved now: a disk that is full while a mapping is written to would end the process.
  if (::posix_fallocate(file.get(), 0, static_cast<off_t>(all)) != 0) {
    ::unlink(aside_.c_str());
    return std::nullopt;
  }
  std::byte* at = tensor::map_file(file.get(), all, PROT_READ | PROT_WRITE);
  if (at == nullptr) return std::nullopt;
  return PackedMemory::mapping(at, all, header_bytes);
}

void PackedFile::finish(PackedMemory& memory) {
  const Header header = header_of(memory.span());
  std::memcpy(memory.data() - header_bytes, &header, sizeof header);
  memory.make_read_only();
  std::error_code error;
  fs::rename(aside_, path_, error);
}

}  // namespace baton::weights

#include "baton/protocol/unit_header.h"

#include <cstring>

namespace baton::protocol {
namespace {

constexpr std::uint32_t magic = 0x31554e42;  // "BNU1"

class Writer {
 public:
  template <typename T>
  void put(T value) {
    static_assert(std::is_unsigned_v<T>);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xff));
    }
  }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T get() {
    T value = 0;
    if (bytes_.size() - at_ < sizeof(T)) {
      good_ = false;
      return value;
    }
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      value = static_cast<T>(value | (static_cast<T>(bytes_[at_ + i]) << (8 * i)));
    }
    at_ += sizeof(T);
    return value;
  }
  std::size_t left() const { return bytes_.size() - at_; }
  bool good() const { return good_; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool good_ = true;
};

Error violation(const char* what) {
  return {Reason::protocol_violation, std::string("data header: ") + what};
}

constexpr std::size_t slot_bytes = 12;
constexpr std::size_t digest_bytes = 16;

}  // namespace

std::vector<std::byte> encode(const UnitHeader& header) {
  Writer out;
  out.put(magic);
  out.put(header.key.request.high);
  out.put(header.key.request.low);
  out.put(header.key.attempt.prefill_leg);
  out.put(header.key.attempt.decode_leg);
  out.put(header.to.value());
  out.put(header.grant);
  out.put(header.group);
  out.put(header.layer);
  out.put(header.first_unit);
  out.put(header.units);
  out.put(header.unit_bytes);
  out.put(static_cast<std::uint32_t>(header.slots.size()));
  for (const SlotRun& run : header.slots) {
    out.put(run.first);
    out.put(run.count);
    out.put(run.generation);
  }
  out.put(static_cast<std::uint32_t>(header.bindings.size()));
  for (const Digest128& digest : header.bindings) {
    out.put(digest.high);
    out.put(digest.low);
  }
  return out.take();
}

Result<UnitHeader> decode_unit_header(std::span<const std::byte> bytes) {
  Reader in(bytes);
  if (in.get<std::uint32_t>() != magic) return violation("wrong magic");
  UnitHeader header;
  header.key.request.high = in.get<std::uint64_t>();
  header.key.request.low = in.get<std::uint64_t>();
  header.key.attempt.prefill_leg = in.get<std::uint32_t>();
  header.key.attempt.decode_leg = in.get<std::uint32_t>();
  header.to = Epoch(in.get<std::uint64_t>());
  header.grant = in.get<std::uint64_t>();
  header.group = in.get<std::uint32_t>();
  header.layer = in.get<std::uint32_t>();
  header.first_unit = in.get<std::uint32_t>();
  header.units = in.get<std::uint32_t>();
  header.unit_bytes = in.get<std::uint64_t>();
  const auto slots = in.get<std::uint32_t>();
  if (!in.good() || slots > in.left() / slot_bytes) return violation("slots are cut short");
  for (std::uint32_t i = 0; i < slots; ++i) {
    SlotRun run;
    run.first = in.get<std::uint32_t>();
    run.count = in.get<std::uint32_t>();
    run.generation = in.get<std::uint32_t>();
    header.slots.push_back(run);
  }
  const auto bindings = in.get<std::uint32_t>();
  if (!in.good() || in.left() != bindings * digest_bytes) return violation("digests are cut short");
  for (std::uint32_t i = 0; i < bindings; ++i) {
    Digest128 digest;
    digest.high = in.get<std::uint64_t>();
    digest.low = in.get<std::uint64_t>();
    header.bindings.push_back(digest);
  }
  if (header.units < 1 || header.units > max_units_per_message) return violation("unit count");
  if (bindings != 2 * header.units) return violation("two digests a unit are needed");
  return header;
}

}  // namespace baton::protocol

#include "wire.h"

#include <cstring>
#include <type_traits>
#include <utility>

namespace baton::transport::shm {
namespace {

class Writer {
 public:
  template <typename T>
  void put(T value) {
    static_assert(std::is_integral_v<T>);
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put_bytes(std::span<const std::byte> bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  T take() {
    T value{};
    const auto bytes = take_bytes(sizeof(T));
    if (good_) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> take_bytes(std::size_t count) {
    if (count > rest_.size()) {
      good_ = false;
      return {};
    }
    const auto bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }
  /// A count of at most `limit` items; more is malformed.
  std::size_t take_count(std::size_t limit) {
    const auto count = take<std::uint32_t>();
    if (count > limit) good_ = false;
    return good_ ? count : 0;
  }
  bool good() const { return good_; }
  bool ended_well() const { return good_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool good_ = true;
};

void write(Writer& out, const Hello& hello) {
  out.put(hello.version);
  out.put(hello.token.value().high);
  out.put(hello.token.value().low);
}
void write(Writer&, const Welcome&) {}
void write(Writer& out, const Region& region) {
  out.put(region.index);
  out.put(region.bytes);
}
void write(Writer& out, const Offer& offer) {
  out.put(offer.sequence);
  out.put(static_cast<std::uint32_t>(offer.header.size()));
  out.put_bytes(offer.header);
  out.put(static_cast<std::uint32_t>(offer.ranges.size()));
  for (const RegionRange& range : offer.ranges) {
    out.put(range.region);
    out.put(range.offset);
    out.put(range.bytes);
  }
}
void write(Writer& out, const Verdict& verdict) {
  out.put(verdict.sequence);
  out.put(static_cast<std::uint8_t>(verdict.status));
}
void write(Writer& out, const Cancel& cancel) { out.put(cancel.sequence); }

void read(Reader& in, Hello& hello) {
  hello.version = in.take<std::uint32_t>();
  RequestId token;
  token.high = in.take<std::uint64_t>();
  token.low = in.take<std::uint64_t>();
  hello.token = PairToken(token);
}
void read(Reader&, Welcome&) {}
void read(Reader& in, Region& region) {
  region.index = in.take<std::uint32_t>();
  region.bytes = in.take<std::uint64_t>();
}
void read(Reader& in, Offer& offer) {
  offer.sequence = in.take<std::uint64_t>();
  const auto header = in.take_bytes(in.take_count(max_header_bytes));
  offer.header.assign(header.begin(), header.end());
  const std::size_t count = in.take_count(max_extents);
  for (std::size_t i = 0; i < count && in.good(); ++i) {
    RegionRange range;
    range.region = in.take<std::uint32_t>();
    range.offset = in.take<std::uint64_t>();
    range.bytes = in.take<std::uint64_t>();
    offer.ranges.push_back(range);
  }
}
void read(Reader& in, Verdict& verdict) {
  verdict.sequence = in.take<std::uint64_t>();
  // A number of a newer peer is a failure, never a success (COR-20).
  const auto status = in.take<std::uint8_t>();
  verdict.status = status <= static_cast<std::uint8_t>(Status::failed) ? static_cast<Status>(status)
                                                                       : Status::failed;
}
void read(Reader& in, Cancel& cancel) { cancel.sequence = in.take<std::uint64_t>(); }

template <typename T>
std::optional<Message> read_whole(Reader& in) {
  T message;
  read(in, message);
  if (!in.ended_well()) return std::nullopt;
  return message;
}

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  Writer out;
  out.put(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& body) { write(out, body); }, message);
  return out.take();
}

std::optional<Message> decode(std::span<const std::byte> bytes) {
  Reader in(bytes);
  switch (in.take<std::uint8_t>()) {
    case 0:
      return read_whole<Hello>(in);
    case 1:
      return read_whole<Welcome>(in);
    case 2:
      return read_whole<Region>(in);
    case 3:
      return read_whole<Offer>(in);
    case 4:
      return read_whole<Verdict>(in);
    case 5:
      return read_whole<Cancel>(in);
    default:
      return std::nullopt;
  }
}

}  // namespace baton::transport::shm

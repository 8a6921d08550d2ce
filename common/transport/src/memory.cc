#include "baton/transport/memory.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "baton/base/check.h"

namespace baton::transport {
namespace {

Error invalid(std::string message) { return {Reason::invalid_request, std::move(message)}; }

}  // namespace

Result<void> MemoryRegistry::add(tensor::SharedBuffer& memory) {
  if (std::find(regions_.begin(), regions_.end(), &memory) != regions_.end()) return ok();
  if (regions_.size() == max_regions) {
    return Error(Reason::no_space, fmt::format("more than {} memory regions", max_regions));
  }
  regions_.push_back(&memory);
  return ok();
}

std::optional<RegionRange> MemoryRegistry::find(const Extent& extent) const {
  if (extent.bytes == 0) return RegionRange{};
  const auto begin = reinterpret_cast<std::uintptr_t>(extent.data);
  for (std::uint32_t i = 0; i < regions_.size(); ++i) {
    const auto base = reinterpret_cast<std::uintptr_t>(regions_[i]->data());
    const std::size_t size = regions_[i]->size();
    if (begin < base || begin - base > size || extent.bytes > size - (begin - base)) continue;
    return RegionRange{i, begin - base, extent.bytes};
  }
  return std::nullopt;
}

bool MemoryRegistry::contains(std::span<const Extent> extents) const {
  return std::all_of(extents.begin(), extents.end(),
                     [this](const Extent& extent) { return find(extent).has_value(); });
}

std::size_t total_bytes(std::span<const Extent> extents) {
  std::size_t sum = 0;
  for (const Extent& extent : extents) sum += extent.bytes;
  return sum;
}

Result<void> check_send(const MemoryRegistry& memory, std::span<const std::byte> header,
                        std::span<const Extent> extents, const Options& options) {
  if (header.size() > max_header_bytes) {
    return invalid(
        fmt::format("header of {} bytes, at most {} fit", header.size(), max_header_bytes));
  }
  if (extents.size() > max_extents) {
    return invalid(fmt::format("{} extents, at most {} fit", extents.size(), max_extents));
  }
  if (!memory.contains(extents)) return invalid("an extent is not inside registered memory");
  if (total_bytes(extents) > options.max_payload_bytes) {
    return invalid(fmt::format("payload of {} bytes, at most {} fit", total_bytes(extents),
                               options.max_payload_bytes));
  }
  return ok();
}

void check_accept(const MemoryRegistry& memory, std::span<const Extent> extents) {
  BATON_CHECK(extents.size() <= max_extents);
  BATON_CHECK(memory.contains(extents));
}

Status received_status(std::size_t announced, std::size_t room) {
  return announced > room ? Status::truncated : Status::ok;
}

ScatterCopy::ScatterCopy(std::vector<std::span<const std::byte>> from, std::vector<Extent> to)
    : from_(std::move(from)), to_(std::move(to)) {}

bool ScatterCopy::step(std::size_t max_bytes) {
  while (from_index_ < from_.size() && to_index_ < to_.size()) {
    const auto source = from_[from_index_].subspan(from_offset_);
    const Extent& extent = to_[to_index_];
    const std::size_t bytes = std::min({source.size(), extent.bytes - to_offset_, max_bytes});
    if (bytes > 0) std::memcpy(extent.data + to_offset_, source.data(), bytes);
    from_offset_ += bytes;
    to_offset_ += bytes;
    max_bytes -= bytes;
    const bool from_ended = from_offset_ == from_[from_index_].size();
    const bool to_ended = to_offset_ == extent.bytes;
    if (from_ended) ++from_index_, from_offset_ = 0;
    if (to_ended) ++to_index_, to_offset_ = 0;
    if (max_bytes == 0 && !from_ended && !to_ended) return false;
  }
  return true;
}

}  // namespace baton::transport

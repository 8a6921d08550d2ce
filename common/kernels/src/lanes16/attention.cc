#include "lanes16/attention.h"

#include <algorithm>
#include <limits>

#include "baton/base/check.h"

#include "kv_cache.h"
#include "lanes16/constants.h"

namespace baton::kernels {
namespace {

std::ptrdiff_t padded(int values) {
  return static_cast<std::ptrdiff_t>((values + lanes - 1) / lanes) * lanes;
}

std::size_t state_floats(int count, int head_dim) {
  return static_cast<std::size_t>(2 * padded(count) + count * padded(head_dim));
}

SoftmaxState state_at(float* memory, int count, int head_dim) {
  // Each part begins on a cache line.
  const std::ptrdiff_t queries = padded(count);
  return {memory, memory + queries, memory + 2 * queries, padded(head_dim)};
}

struct alignas(64) StackState {
  float memory[2 * max_queries + max_query_values];
};

void clear(const SoftmaxState& state, int count) {
  std::fill_n(state.max, count, -std::numeric_limits<float>::infinity());
  std::fill_n(state.sum, count, 0.0F);
  std::fill_n(state.out, count * state.stride, 0.0F);
}

std::int64_t first_visible(const AttentionArgs& args, std::int64_t position) {
  return args.window > 0 ? std::max<std::int64_t>(0, position - args.window + 1) : 0;
}

/// An AttendTask with the memory for its queries.
struct Prepared {
  AttendTask task;
  Query queries[max_queries];
};

void prepare(const AttentionArgs& args, const RowSpan& span, int kv_head, int first, int count,
             Prepared& out) {
  const tensor::UnitLayout& unit = args.cache.unit;
  const int group = args.heads / unit.kv_heads;
  for (int i = 0; i < count; ++i) {
    const int row = (first + i) / group;
    const int head = kv_head * group + (first + i) % group;
    const std::int64_t position = span.first_position + row;
    out.queries[i] = {args.q.row(span.row + row) + head * unit.head_dim,
                      args.out.row(span.row + row) + head * unit.head_dim,
                      first_visible(args, position), position};
  }
  out.task = {args.cache,  span.kv, static_cast<std::size_t>(kv_head) * unit.head_bytes(),
              out.queries, count,   args.scale,
              args.softcap};
}

}  // namespace

/// Many queries share what it costs to read and unpack a tile; few leave items enough for all
/// threads.
int AttentionDriver::queries_per_item(const AttentionArgs& args) const {
  std::int64_t all = 0;
  for (const RowSpan& span : args.spans) all += std::int64_t{span.count} * args.heads;
  const std::int64_t room = max_query_values / padded(args.cache.unit.head_dim);
  const std::int64_t most = std::min<std::int64_t>(max_queries, room);
  const std::int64_t share = all / (std::int64_t{pool_.threads()} * items_per_thread);
  const int wanted =
      static_cast<int>(std::min(most, std::max<std::int64_t>(fewest_item_queries, share)));
  // Whole rows where they fit: all heads of a row see the same keys.
  const int group = args.heads / args.cache.unit.kv_heads;
  return group <= wanted ? wanted / group * group : wanted;
}

void AttentionDriver::list_items(const AttentionArgs& args) {
  const int group = args.heads / args.cache.unit.kv_heads;
  const int per_item = queries_per_item(args);
  items_.clear();
  std::int64_t parts = 0;
  for (const RowSpan& span : args.spans) {
    const int queries = span.count * group;
    for (int first = 0; first < queries; first += per_item) {
      const int count = std::min(per_item, queries - first);
      const std::int64_t low = span.first_position + first / group;
      const std::int64_t high = span.first_position + (first + count - 1) / group;
      const std::int64_t begin = first_visible(args, low) / segment_keys;
      const std::int64_t segments = high / segment_keys + 1 - begin;
      for (int head = 0; head < args.cache.unit.kv_heads; ++head) {
        items_.push_back({&span, head, first, count, begin, segments, parts});
        parts += segments;
      }
    }
  }
}

void AttentionDriver::run_whole(const AttentionArgs& args, const Item& item) const {
  const int head_dim = args.cache.unit.head_dim;
  Prepared p;
  prepare(args, *item.span, item.kv_head, item.first_query, item.count, p);
  StackState total_memory;
  StackState part_memory;
  const SoftmaxState total = state_at(total_memory.memory, item.count, head_dim);
  const SoftmaxState part = state_at(part_memory.memory, item.count, head_dim);
  clear(total, item.count);
  for (std::int64_t s = item.first_segment; s < item.first_segment + item.segments; ++s) {
    ops_.attend_segment(p.task, s, part);
    for (int i = 0; i < item.count; ++i) {
      if (sees(p.queries[i], s * segment_keys, (s + 1) * segment_keys)) {
        ops_.merge(total, part, i, head_dim);
      }
    }
  }
  for (int i = 0; i < item.count; ++i) ops_.finish(total, i, head_dim, p.queries[i].out);
}

void AttentionDriver::run_split(const AttentionArgs& args) {
  const int head_dim = args.cache.unit.head_dim;
  parts_.clear();
  for (const Item& item : items_) parts_.insert(parts_.end(), item.segments, &item);
  int most = 0;
  for (const Item& item : items_) most = std::max(most, item.count);
  const std::size_t part_floats = state_floats(most, head_dim);
  const std::size_t bytes = parts_.size() * part_floats * sizeof(float);
  auto* memory = reinterpret_cast<float*>(states_.bytes(bytes));

  const auto part_state = [&](std::int64_t part) {
    return state_at(memory + static_cast<std::size_t>(part) * part_floats, most, head_dim);
  };
  pool_.run(static_cast<int>(parts_.size()), [&](int i) {
    const Item& item = *parts_[static_cast<std::size_t>(i)];
    Prepared p;
    prepare(args, *item.span, item.kv_head, item.first_query, item.count, p);
    ops_.attend_segment(p.task, item.first_segment + i - item.first_part, part_state(i));
  });
  pool_.run(static_cast<int>(items_.size()), [&](int n) {
    const Item& item = items_[static_cast<std::size_t>(n)];
    Prepared p;
    prepare(args, *item.span, item.kv_head, item.first_query, item.count, p);
    StackState total_memory;
    const SoftmaxState total = state_at(total_memory.memory, item.count, head_dim);
    clear(total, item.count);
    for (int i = 0; i < item.count; ++i) {
      for (std::int64_t s = 0; s < item.segments; ++s) {
        const std::int64_t begin = (item.first_segment + s) * segment_keys;
        if (!sees(p.queries[i], begin, begin + segment_keys)) continue;
        ops_.merge(total, part_state(item.first_part + s), i, head_dim);
      }
      ops_.finish(total, i, head_dim, p.queries[i].out);
    }
  });
}

void AttentionDriver::check(const AttentionArgs& args) const {
  const tensor::UnitLayout& unit = args.cache.unit;
  BATON_CHECK(unit.head_dim > 0 && unit.valid() && unit.head_dim <= max_head_dim);
  BATON_CHECK(unit.kv_heads > 0 && args.heads % unit.kv_heads == 0);
  for (const RowSpan& span : args.spans) {
    if (span.count == 0) continue;
    BATON_CHECK(span.first_position >= 0);
    const std::int64_t first = first_visible(args, span.first_position);
    const std::int64_t last = span.first_position + span.count - 1;
    for (std::int64_t key = first; key <= last; key += tensor::unit_positions) {
      BATON_CHECK(unit_of(args.cache, span.kv.k, key) != nullptr);
      BATON_CHECK(unit_of(args.cache, span.kv.v, key) != nullptr);
    }
    BATON_CHECK(unit_of(args.cache, span.kv.k, last) != nullptr);
    BATON_CHECK(unit_of(args.cache, span.kv.v, last) != nullptr);
  }
}

void AttentionDriver::run(const AttentionArgs& args) {
  check(args);
  list_items(args);
  std::int64_t longest = 0;
  std::int64_t all = 0;
  for (const Item& item : items_) {
    longest = std::max(longest, item.segments);
    all += item.segments;
  }
  // An item that alone is a large part of a thread's share is cut into its segments.
  const bool uneven = longest > 1 && longest * longest_items_per_thread * pool_.threads() > all;
  if (uneven && pool_.threads() > 1) return run_split(args);
  // The last items see the most keys and are started first.
  const int count = static_cast<int>(items_.size());
  pool_.run(count,
            [&](int i) { run_whole(args, items_[static_cast<std::size_t>(count - 1 - i)]); });
}

}  // namespace baton::kernels

// Follows the drivers' own allocations: a unit test holds it against what they take.
#include "baton/kernels/workspace.h"

#include <algorithm>

#include "lanes16/attention.h"
#include "lanes16/constants.h"

namespace baton::kernels {
namespace {

/// Blocks of activations of no set are longer.
constexpr std::int64_t most_block_rows = 16;
constexpr std::int64_t float_bytes = sizeof(float);

std::int64_t divided_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }
std::int64_t padded(std::int64_t values) { return divided_up(values, lanes) * lanes; }

/// What Scratch takes when it grows.
std::int64_t grown(std::int64_t bytes) { return bytes * 5 / 4; }

std::int64_t rows_bytes(std::int64_t rows, std::int64_t cols) {
  return grown(rows * padded(cols) * float_bytes);
}

/// PreparedInput: floats take the most (tiles of bf16 half, in whole tiles), and blocks end at a
/// cache line.
std::int64_t prepared_bytes(std::int64_t rows, std::int64_t inputs) {
  const std::int64_t whole_blocks = rows + std::min(rows, most_block_rows);
  const std::int64_t least = bf16_tile_inputs / 2;
  return grown(whole_blocks * std::max(inputs + 1, least) * float_bytes + rows * 64);
}

/// Operations one after the other: gate and up, what becomes of them, and rows through a norm.
std::int64_t composed_bytes(const WorkspaceShape& s, std::int64_t rows) {
  const std::int64_t wide = s.feed_forward_rows;
  return 2 * rows_bytes(rows, s.width) + rows_bytes(wide, std::int64_t{2} * s.feed_forward_width) +
         rows_bytes(wide, s.feed_forward_width);
}

/// Attention's items and, where they are cut, the states of their parts.
std::int64_t attention_bytes(const WorkspaceShape& s) {
  constexpr std::int64_t item_bytes = 2 * 64;  // and as many again by the vector's growth
  const std::int64_t queries = std::int64_t{s.rows} * s.heads;
  const std::int64_t items = queries * item_bytes;
  if (s.threads == 1) return items;
  const std::int64_t segments = divided_up(s.positions, segment_keys);
  const std::int64_t parts =
      std::min(queries, std::int64_t{longest_items_per_thread} * s.threads) * segments;
  const std::int64_t share = queries / (std::int64_t{s.threads} * items_per_thread);
  const std::int64_t room =
      std::min<std::int64_t>(max_queries, max_query_values / padded(s.head_dim));
  const std::int64_t most =
      std::min({queries, room, std::max<std::int64_t>(fewest_item_queries, share)});
  const std::int64_t part = (2 * padded(most) + most * padded(s.head_dim)) * float_bytes;
  return items + grown(parts * part) + 2 * parts * static_cast<std::int64_t>(sizeof(void*));
}

std::int64_t lanes16_bytes(const WorkspaceShape& s) {
  const bool apart = s.mixed_gate_up || s.feed_forward_width % group_inputs != 0;
  const std::int64_t wide = s.feed_forward_rows;
  const std::int64_t attention_width = std::int64_t{s.heads} * s.head_dim;
  std::int64_t prepared = prepared_bytes(s.rows, std::max<std::int64_t>(s.width, attention_width));
  if (apart) prepared = std::max(prepared, prepared_bytes(wide, s.feed_forward_width));
  std::int64_t bytes = prepared + rows_bytes(s.rows, s.width) + attention_bytes(s);
  bytes += prepared_bytes(wide, s.width) + prepared_bytes(wide, s.feed_forward_width);
  bytes += rows_bytes(wide, s.width) * (s.post_norms ? 2 : 1);
  return apart ? bytes + composed_bytes(s, wide) : bytes;
}

/// A sequence's keys and values as floats, and a row of scores a thread.
std::int64_t ref_bytes(const WorkspaceShape& s) {
  const std::int64_t position =
      (std::int64_t{2} * s.kv_heads * s.head_dim + s.threads) * float_bytes;
  return composed_bytes(s, s.rows) + s.positions * position;
}

}  // namespace

std::size_t most_workspace_bytes(const Kernels& kernels, const WorkspaceShape& shape) {
  const bool plain = kernels.set_name() == "ref";
  return static_cast<std::size_t>(plain ? ref_bytes(shape) : lanes16_bytes(shape));
}

}  // namespace baton::kernels

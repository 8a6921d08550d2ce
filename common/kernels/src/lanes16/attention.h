// Splits attention into independent parts: (sequence, cached head, some queries) and, where these
// are few, segments of keys too. Segments are always merged in ascending order.
#pragma once

#include <vector>

#include "lanes16/ops.h"
#include "scratch.h"

namespace baton::kernels {

/// Queries of an item: at least so many, of all that there are one of so many parts a thread.
inline constexpr int fewest_item_queries = 24;
inline constexpr int items_per_thread = 4;
/// Items are cut into segments while the longest is more than one of so many parts of a thread's
/// share.
inline constexpr int longest_items_per_thread = 4;

class AttentionDriver {
 public:
  AttentionDriver(const Lanes16Ops& ops, ThreadPool& pool) : ops_(ops), pool_(pool) {}

  void run(const AttentionArgs& args);

 private:
  /// Queries [first_query, first_query + count) of a cached head; query i is head i % group of the
  /// span's row i / group.
  struct Item {
    const RowSpan* span = nullptr;
    int kv_head = 0;
    int first_query = 0;
    int count = 0;
    std::int64_t first_segment = 0;
    std::int64_t segments = 0;
    std::int64_t first_part = 0;  ///< of this item in the list of (item, segment) parts
  };

  /// Shapes and that every unit with a visible key is there.
  void check(const AttentionArgs& args) const;
  int queries_per_item(const AttentionArgs& args) const;
  void list_items(const AttentionArgs& args);
  void run_whole(const AttentionArgs& args, const Item& item) const;
  void run_split(const AttentionArgs& args);

  const Lanes16Ops& ops_;
  ThreadPool& pool_;
  std::vector<Item> items_;
  std::vector<const Item*> parts_;
  Scratch states_;
};

}  // namespace baton::kernels

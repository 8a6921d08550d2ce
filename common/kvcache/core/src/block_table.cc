#include "baton/kvcache/core/block_table.h"

#include <limits>

#include "baton/base/check.h"

namespace baton::kvcache {

std::vector<BlockRun> runs_of(const BlockTable& table, std::size_t first, std::size_t count) {
  BATON_CHECK(first >= table.first_held() && first + count <= table.size());
  std::vector<BlockRun> runs;
  for (std::size_t i = first; i < first + count; ++i) {
    const BlockRef ref = table.ref(i);
    const bool continues = !runs.empty() && runs.back().generation == ref.generation &&
                           runs.back().first + runs.back().count == ref.block;
    if (continues) {
      ++runs.back().count;
    } else {
      runs.push_back({ref.block, 1, ref.generation});
    }
  }
  return runs;
}

std::vector<BlockRun> runs_of(const BlockTable& table) {
  return runs_of(table, table.first_held(), table.size() - table.first_held());
}

std::int64_t blocks_in(std::span<const BlockRun> runs) {
  std::int64_t total = 0;
  for (const BlockRun& run : runs) {
    if (run.first < 0 || run.count < 1) return -1;
    if (run.first > std::numeric_limits<std::int32_t>::max() - run.count) return -1;
    total += run.count;
  }
  return total;
}

}  // namespace baton::kvcache

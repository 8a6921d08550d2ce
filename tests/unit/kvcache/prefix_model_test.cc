// The pools under random use, beside a plain model of what they must hold: every hit as long as it
// can be and right in every position, eviction in the order of use, no write into a shared block.
#include <list>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "baton/kvcache/core/block_pools.h"

namespace baton::kvcache {
namespace {

constexpr int size = 16;

struct Rule {
  std::int32_t blocks;
  int window;
};

/// One group as an obvious program would keep it.
struct GroupModel {
  struct Known {
    std::int32_t block;
    Generation generation;
  };
  std::map<prefix::Key, Known> index;
  std::map<std::int32_t, prefix::Key> key_of;
  std::map<std::int32_t, int> holders;
  std::list<std::int32_t> idle;  // the longest unused first
  std::int32_t free = 0;
  std::map<std::int32_t, std::vector<prefix::Key>> memory;  // what was written, by position

  void hold(std::int32_t block) {
    if (holders[block]++ == 0) idle.remove(block);
  }
  void drop(std::int32_t block) {
    if (--holders[block] > 0) return;
    if (key_of.contains(block)) {
      idle.push_back(block);
    } else {
      ++free;
    }
  }
  /// `fresh` were taken: from the free ones, then the longest unused.
  void take(const std::vector<std::int32_t>& fresh) {
    for (auto left = static_cast<std::int32_t>(fresh.size()); left > free;) {
      const std::int32_t evicted = idle.front();
      idle.pop_front();
      index.erase(key_of.at(evicted));
      key_of.erase(evicted);
      ++free;
    }
    free -= static_cast<std::int32_t>(fresh.size());
    for (const std::int32_t block : fresh) {
      ASSERT_FALSE(key_of.contains(block)) << "a block of another order was evicted";
      ASSERT_EQ(holders[block], 0);
      holders[block] = 1;
      memory[block].assign(size, prefix::Key());
    }
  }
};

struct Live {
  std::vector<TokenId> ids;
  std::vector<prefix::Key> keys;       // of whole blocks
  std::vector<prefix::Key> positions;  // names the ids up to and with a position
  std::int64_t cached = 0;
  SequenceBlocks blocks;
};

class PrefixModel : public testing::TestWithParam<std::uint64_t> {
 protected:
  void make(const std::vector<Rule>& rules) {
    PoolConfig config{.block_positions = size, .groups = {}};
    for (const Rule& rule : rules) {
      config.groups.push_back({.blocks = rule.blocks, .window = rule.window});
      models_.emplace_back().free = rule.blocks;
    }
    pools_.emplace(config);
  }

  /// Prompts share prefixes: each block is one of two, mostly the first.
  Live new_sequence() {
    Live out;
    const std::size_t length = 1 + random_() % 140;
    TokenId variant = 0;
    for (std::size_t i = 0; i < length; ++i) {
      if (i % size == 0) variant = random_() % 4 == 0 ? 1000 : 0;
      out.ids.push_back(variant + static_cast<TokenId>(i));
    }
    prefix::Chain chain(prefix::Key(), size);
    chain.extend(out.ids);
    out.keys.assign(chain.keys().begin(), chain.keys().end());
    for (std::size_t i = 0; i < length; ++i) {
      Digest256 name;
      for (std::size_t b = 0; b <= i / size; ++b) {
        name.bytes[b] = out.ids[b * size] >= 1000 ? 2 : 1;
      }
      name.bytes[31] = static_cast<std::uint8_t>(i % size + 1);
      out.positions.emplace_back(name);
    }
    return out;
  }

  std::int64_t longest_hit(const Live& live) const {
    for (std::int64_t length = (std::ssize(live.ids) - 1) / size * size; length > 0;
         length -= size) {
      bool whole = true;
      for (int g = 0; g < pools_->groups(); ++g) {
        for (std::int64_t p = pools_->first_visible(g, length) / size; p < length / size; ++p) {
          whole = whole && models_[static_cast<std::size_t>(g)].index.contains(
                               live.keys[static_cast<std::size_t>(p)]);
        }
      }
      if (whole) return length;
    }
    return 0;
  }

  void start(Live& live) {
    const std::int64_t length = pools_->cached_prefix(live.keys, std::ssize(live.ids) - 1);
    ASSERT_EQ(length, longest_hit(live));
    hits_ += length > 0;
    if (length == 0) return;
    std::vector<std::int64_t> first;
    for (int g = 0; g < pools_->groups(); ++g) first.push_back(pools_->first_visible(g, length));
    const auto held = pools_->take_indexed(live.blocks, live.keys, first, length);
    ASSERT_EQ(held, std::vector<std::int64_t>(held.size(), length));
    live.cached = length;
    for (int g = 0; g < static_cast<int>(live.blocks.groups()); ++g) {
      GroupModel& model = models_[static_cast<std::size_t>(g)];
      const BlockTable& table = live.blocks.group(g);
      for (std::size_t i = table.first_held(); i < table.size(); ++i) {
        const GroupModel::Known known = model.index.at(live.keys[i]);
        ASSERT_EQ(table.ref(i), (BlockRef{known.block, known.generation}));
        model.hold(known.block);
      }
    }
    check_reads(live);
  }

  /// Every position that the next query sees holds what this sequence would have written there.
  void check_reads(const Live& live) {
    for (int g = 0; g < static_cast<int>(live.blocks.groups()); ++g) {
      for (std::int64_t p = pools_->first_visible(g, live.cached); p < live.cached; ++p) {
        const std::int32_t block =
            live.blocks.group(g).blocks()[static_cast<std::size_t>(p / size)];
        ASSERT_EQ(
            models_[static_cast<std::size_t>(g)].memory[block][static_cast<std::size_t>(p % size)],
            live.positions[static_cast<std::size_t>(p)])
            << "group " << g << ", position " << p;
      }
    }
  }

  void advance(Live& live) {
    if (live.cached == std::ssize(live.ids)) return;
    const std::int64_t end = std::min<std::int64_t>(
        std::ssize(live.ids), live.cached + 1 + static_cast<std::int64_t>(random_() % 50));
    std::vector<std::size_t> before(static_cast<std::size_t>(pools_->groups()), 0);
    for (std::size_t g = 0; g < live.blocks.groups(); ++g) {
      before[g] = live.blocks.group(static_cast<int>(g)).size();
    }
    const Coverage span{.next = live.cached, .end = end, .reserve_end = std::ssize(live.ids)};
    const auto need = pools_->need(live.blocks, span);
    bool fits = true;
    for (int g = 0; g < pools_->groups(); ++g) {
      const GroupModel& model = models_[static_cast<std::size_t>(g)];
      fits = fits && need[static_cast<std::size_t>(g)] <= model.free + std::ssize(model.idle);
    }
    ASSERT_EQ(pools_->extend(live.blocks, span), fits);
    if (!fits) return;
    for (int g = 0; g < pools_->groups(); ++g) {
      const BlockTable& table = live.blocks.group(g);
      const std::size_t old = std::max(before[static_cast<std::size_t>(g)], table.first_held());
      models_[static_cast<std::size_t>(g)].take(
          {table.blocks().begin() + static_cast<std::ptrdiff_t>(old), table.blocks().end()});
      write(live, g, end);
    }
    check_reads(live);
    seal(live, end);
  }

  void write(const Live& live, int g, std::int64_t end) {
    GroupModel& model = models_[static_cast<std::size_t>(g)];
    for (std::int64_t p = live.cached; p < end; ++p) {
      const std::int32_t block = live.blocks.group(g).blocks()[static_cast<std::size_t>(p / size)];
      ASSERT_EQ(model.holders[block], 1);
      ASSERT_FALSE(model.key_of.contains(block)) << "a write into a sealed block";
      model.memory[block][static_cast<std::size_t>(p % size)] =
          live.positions[static_cast<std::size_t>(p)];
    }
  }

  void seal(Live& live, std::int64_t end) {
    pools_->seal(live.blocks, live.keys, live.cached, end, {});
    for (int g = 0; g < pools_->groups(); ++g) {
      GroupModel& model = models_[static_cast<std::size_t>(g)];
      for (std::int64_t i = live.cached / size; i < end / size; ++i) {
        const BlockRef ref = live.blocks.group(g).ref(static_cast<std::size_t>(i));
        const auto [known, added] = model.index.try_emplace(
            live.keys[static_cast<std::size_t>(i)], GroupModel::Known{ref.block, ref.generation});
        const std::int32_t block = known->second.block;
        if (added) model.key_of[block] = live.keys[static_cast<std::size_t>(i)];
        if (!added && model.holders[block] == 0) {
          model.idle.remove(block);
          model.idle.push_back(block);
        }
      }
    }
    live.cached = end;
    const std::vector<std::vector<std::int32_t>> before = held_by(live);
    pools_->drop_invisible(live.blocks, live.cached);
    for (std::size_t g = 0; g < before.size(); ++g) {
      const BlockTable& table = live.blocks.group(static_cast<int>(g));
      const std::size_t kept = table.size() - table.first_held();
      for (std::size_t i = 0; i + kept < before[g].size(); ++i) models_[g].drop(before[g][i]);
    }
  }

  static std::vector<std::vector<std::int32_t>> held_by(const Live& live) {
    std::vector<std::vector<std::int32_t>> out;
    for (std::size_t g = 0; g < live.blocks.groups(); ++g) {
      const BlockTable& table = live.blocks.group(static_cast<int>(g));
      out.emplace_back(table.blocks().begin() + static_cast<std::ptrdiff_t>(table.first_held()),
                       table.blocks().end());
    }
    return out;
  }

  void release(Live& live) {
    const std::vector<std::vector<std::int32_t>> held = held_by(live);
    pools_->release(live.blocks);
    for (std::size_t g = 0; g < held.size(); ++g) {
      for (auto at = held[g].rbegin(); at != held[g].rend(); ++at) models_[g].drop(*at);
    }
  }

  void check_counts() {
    for (int g = 0; g < pools_->groups(); ++g) {
      const GroupModel& model = models_[static_cast<std::size_t>(g)];
      const PoolCounts counts = pools_->counts(g);
      ASSERT_EQ(counts.free, model.free);
      ASSERT_EQ(counts.cached, std::ssize(model.idle));
      std::int64_t holders = 0;
      for (const auto& [block, count] : model.holders) holders += count;
      ASSERT_EQ(counts.references[0], holders);
    }
  }

  std::mt19937_64 random_{GetParam()};
  std::optional<BlockPools> pools_;
  std::vector<GroupModel> models_;
  int hits_ = 0;
};

TEST_P(PrefixModel, HitsAreRightAndAsLongAsCanBeAndEvictionFollowsUse) {
  const int window = static_cast<int>(1 + random_() % 70);
  switch (random_() % 3) {
    case 0:
      make({{24, 0}});
      break;
    case 1:
      make({{24, 0}, {18, window}});
      break;
    default:
      make({{20, window}});
  }
  std::vector<Live> live;
  for (int i = 0; i < 3000 && !HasFatalFailure(); ++i) {
    if (live.empty() || (live.size() < 6 && random_() % 3 == 0)) {
      live.push_back(new_sequence());
      start(live.back());
    } else if (random_() % 4 > 0) {
      advance(live[random_() % live.size()]);
    } else {
      std::swap(live[random_() % live.size()], live.back());
      release(live.back());
      live.pop_back();
    }
    check_counts();
  }
  for (Live& each : live) release(each);
  for (int g = 0; g < pools_->groups(); ++g) {
    const PoolCounts counts = pools_->counts(g);
    EXPECT_EQ(counts.free + counts.cached, counts.total);
  }
  EXPECT_GT(hits_, 50);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PrefixModel, testing::Range<std::uint64_t>(1, 25));

}  // namespace
}  // namespace baton::kvcache

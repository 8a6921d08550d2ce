// Runs sequences through a model over a cache of its own, step by step, for tests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "baton/kvcache/arena.h"
#include "baton/models/model.h"

namespace baton::test {

struct CacheOptions {
  tensor::CacheDtype dtype = tensor::CacheDtype::bf16;
  int block_units = 4;
  int sequences = 1;
  std::int64_t positions = 0;  ///< most positions of a sequence
  std::uint64_t seed = 1;      ///< of the order in which blocks are handed out
};

/// Blocks lie in the arena in random order, and every byte of it starts as not-a-number: what is
/// read without having been written shows.
class CachedRun {
 public:
  CachedRun(models::Model& model, const CacheOptions& options);

  /// Tokens that a step appends to a sequence.
  struct Part {
    int sequence = 0;
    std::span<const TokenId> tokens;
    models::LogitRows logits = models::LogitRows::all;
  };
  Result<models::StepOutput> step(std::span<const Part> parts,
                                  models::StepObserver* observer = nullptr);
  /// One sequence's logits rows of one step, copied.
  std::vector<std::vector<float>> append(int sequence, std::span<const TokenId> tokens);

  std::int64_t length(int sequence) const { return lengths_[static_cast<std::size_t>(sequence)]; }
  /// Where the sequence's next token will stand, whatever is cached: for planting mistakes.
  void set_length(int sequence, std::int64_t length) {
    lengths_[static_cast<std::size_t>(sequence)] = length;
  }
  /// Takes the blocks that a sequence's next token cannot see out of its tables and fills them with
  /// not-a-number.
  void drop_unseen_blocks(int sequence);
  /// All bytes of a sequence's cached units.
  std::vector<std::byte> cached_bytes(int sequence);

 private:
  std::vector<std::int32_t>& table(int sequence, std::size_t group);
  void poison(std::size_t group, std::int32_t block);

  models::Model& model_;
  std::int64_t block_positions_;
  kvcache::Arena arena_;
  std::vector<std::vector<std::int32_t>> tables_;  // [sequence][group]
  std::vector<std::int64_t> lengths_;
};

}  // namespace baton::test

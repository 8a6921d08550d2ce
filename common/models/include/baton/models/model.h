// A loaded model and its forward pass: one pass executes the layers of any ModelConfig.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/result.h"
#include "baton/kernels/kernels.h"
#include "baton/kvcache/arena.h"
#include "baton/modelfile/model_file.h"
#include "baton/models/config.h"

namespace baton::models {

enum class LogitRows : std::uint8_t { none, last, all };

/// The rows of one sequence in a step: `tokens` stand at positions first_position, … . The cache
/// holds exactly first_position positions of the sequence before the step (P1: the phase does not
/// matter here, only what is cached).
struct SequenceRows {
  std::span<const TokenId> tokens;
  std::int64_t first_position = 0;
  /// Per layer group: the sequence's block table, ascending; -1 for blocks dropped by a window.
  /// Covers first_position + tokens.size() positions.
  std::span<const std::vector<std::int32_t>* const> block_tables;
  LogitRows logits = LogitRows::none;
};

/// Called on the engine thread between layers.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  /// The layer's K and V of this step are final in the cache.
  virtual void layer_done(int layer) = 0;
  /// True when the sequence (index into the batch) was cancelled: its rows leave the step here.
  virtual bool cancelled(std::size_t sequence) = 0;
};

struct StepOutput {
  /// Logits of the wanted rows, batch order, then row order: [wanted rows][vocabulary]. Valid until
  /// the next step. A sequence cancelled during the step has no rows.
  kernels::ConstRows logits;
  /// First logits row of each sequence, -1 when it has none.
  std::vector<int> first_logits_row;
};

struct LoadOptions {
  /// 0: the model's own. Longer than that is refused (bad_config).
  std::int64_t context_length = 0;
  std::function<void(double fraction)> progress = {};
  /// Folder in which packed weights are kept and shared under the digest of the model file; empty:
  /// they are this process's own.
  std::filesystem::path packed_cache = {};
  Digest256 content = {};
};

class Model {
 public:
  /// Reads, checks, packs. Fails with Reason::bad_model_file and the field at fault.
  static Result<std::unique_ptr<Model>> load(const std::filesystem::path& file,
                                             kernels::Kernels& kernels, const LoadOptions& options);
  /// The same from an open file, which may be closed afterwards, with the configuration that
  /// config_from() made of it. `kernels` must outlive the model.
  static Result<std::unique_ptr<Model>> load(const modelfile::ModelFile& file,
                                             const ModelConfig& config, kernels::Kernels& kernels,
                                             const LoadOptions& options);
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  /// Bytes held by weights, position tables and the workspace of the largest step so far.
  virtual std::size_t weight_bytes() const = 0;
  /// The packed weights are mapped from a file that other processes share.
  virtual bool weights_shared() const = 0;

  /// One step. Fails (invalid_request) on a token id outside the vocabulary, a position beyond the
  /// context (the engine checks positions as well, API-22) or a short block table; then nothing was
  /// written. Not thread safe.
  virtual Result<StepOutput> forward(std::span<const SequenceRows> batch, kvcache::Arena& arena,
                                     StepObserver* observer) = 0;
};

}  // namespace baton::models

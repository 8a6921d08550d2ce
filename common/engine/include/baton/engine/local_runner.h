// Completions in one process, without a handoff: `baton complete --local`, and the oracle that runs
// through router, prefill and decode node are compared with.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "baton/engine/cache_shape.h"
#include "baton/engine/core/planner.h"
#include "baton/engine/engine.h"

namespace baton::engine {

struct LocalOptions {
  CacheShape cache;
  std::int64_t context_length = 0;  ///< 0: the model's own
  std::int64_t token_budget = 512;  ///< rows of a step
  std::int64_t chunk_rows = 512;    ///< rows of one chunk; 1: sequential prefill
  bool prefix_cache = true;         ///< requests start with what earlier ones have left of them
  bool poison_freed = false;
};

/// One token at a time through the prompt as well: the reference for the parallel forward pass.
inline constexpr std::int64_t sequential_prefill_rows = 1;

struct LocalTimes {
  Duration queue{};    ///< until the first row was computed
  Duration prefill{};  ///< from there to the first token
  Duration decode{};   ///< from there to the last token
};

struct Completion {
  std::vector<TokenId> tokens;
  std::vector<Digest128> logits_digests;  ///< one per token, when asked for
  std::vector<Logprobs> logprobs;         ///< one per token, when asked for
  Finish finish = Finish::length;
  int preemptions = 0;
  std::int64_t cached_tokens = 0;  ///< of the prompt, taken from the prefix cache
  LocalTimes times;
};

/// Holds a cache; runs any number of requests in one continuous batch.
class LocalRunner {
 public:
  using OnToken = std::function<void(const TokenEvent&)>;

  /// `model` outlives the runner. Fails when the cache's memory cannot be had.
  static Result<std::unique_ptr<LocalRunner>> create(models::Model& model,
                                                     const LocalOptions& options);

  /// Refuses what Sequence::for_prefill refuses, and with Reason::prompt_exceeds_pool a prompt that
  /// can never fit. The request is computed by step().
  Result<SequenceId> submit(SequenceSpec spec);

  /// One step of whatever is unfinished. False when nothing is. After an error what was unfinished
  /// is left as it was: to be tried again, or dropped.
  Result<bool> step(const OnToken& on_token = {});

  /// The outcome of an ended request, once: nothing while it runs. Reason::cannot_grow when the
  /// cache was too small for it.
  std::optional<Result<Completion>> take(SequenceId id);

  /// Ends and forgets a request, whatever has become of it.
  void drop(SequenceId id);

  /// submit(), step() to the end, take(); an error drops it.
  Result<Completion> complete(SequenceSpec spec, const OnToken& on_token = {});

  const kvcache::BlockPools& pools() const { return pools_; }
  const EngineCounters& counters() const { return engine_.counters(); }

 private:
  struct Progress {
    Completion completion;
    Instant submitted;
    std::optional<Instant> started;
    std::optional<Instant> first_token;
    std::optional<Error> error;
    bool ended = false;
  };

  LocalRunner(models::Model& model, kvcache::Arena arena, const LocalOptions& options);
  void end(SequenceId id, std::optional<Error> error);
  void record(const TokenEvent& event, Instant now);
  void apply(const PlanDecision& decision);

  models::Model& model_;
  ModelLimits limits_;
  PlanLimits plan_limits_;
  bool prefix_cache_;
  kvcache::Arena arena_;
  kvcache::BlockPools pools_;
  SequenceTable table_;
  Engine engine_;
  RateModel rates_;
  std::map<SequenceId, Progress> progress_;
};

}  // namespace baton::engine

#include "baton/engine/local_runner.h"

#include <string>
#include <utility>

#include "baton/base/check.h"

namespace baton::engine {

Result<std::unique_ptr<LocalRunner>> LocalRunner::create(models::Model& model,
                                                         const LocalOptions& options) {
  if (options.cache.positions < 1 || options.token_budget < 1 || options.chunk_rows < 1) {
    return Error(Reason::bad_config, "cache positions, token budget and chunk are at least 1");
  }
  BATON_ASSIGN(auto arena, kvcache::Arena::create(arena_config(model.config(), options.cache)));
  return std::unique_ptr<LocalRunner>(new LocalRunner(model, std::move(arena), options));
}

LocalRunner::LocalRunner(models::Model& model, kvcache::Arena arena, const LocalOptions& options)
    : model_(model),
      limits_{.vocabulary = model.config().vocabulary,
              .context_length = options.context_length == 0 ? model.config().context_length
                                                            : options.context_length},
      plan_limits_{.token_budget = options.token_budget,
                   .chunk_rows = options.chunk_rows,
                   .layers = model.config().layers},
      prefix_cache_(options.prefix_cache),
      arena_(std::move(arena)),
      pools_(pool_config(model.config(), arena_.config(), options.poison_freed)),
      engine_(model_, arena_, pools_, table_) {}

Result<SequenceId> LocalRunner::submit(SequenceSpec spec) {
  // One process, one model, one user: any root will do.
  if (prefix_cache_) spec.prefix.emplace(prefix::Key(), pools_.config().block_positions);
  BATON_ASSIGN(auto sequence, Sequence::for_prefill(std::move(spec), limits_));
  if (!pools_.could_fit(sequence.length() + 1, 1)) {
    return Error(Reason::prompt_exceeds_pool, "the prompt has " +
                                                  std::to_string(sequence.length()) +
                                                  " tokens, more than the cache holds");
  }
  const SequenceId id = table_.add(std::move(sequence));
  progress_[id].submitted = monotonic_now();
  return id;
}

void LocalRunner::end(SequenceId id, std::optional<Error> error) {
  Progress& progress = progress_.at(id);
  progress.error = std::move(error);
  progress.ended = true;
  table_.remove(id, pools_);
}

void LocalRunner::apply(const PlanDecision& decision) {
  for (const SequenceId id : decision.preempt) {
    table_.find(id)->preempt(pools_);
    ++progress_.at(id).completion.preemptions;
  }
  for (const SequenceId id : decision.cannot_grow) {
    end(id, Error(Reason::cannot_grow, "the sequence has outgrown the cache"));
  }
  const Instant now = monotonic_now();
  for (const PrefillRows& rows : decision.step.prefill) {
    Progress& progress = progress_.at(rows.sequence);
    if (!progress.started) progress.started = now;
  }
}

void LocalRunner::record(const TokenEvent& event, Instant now) {
  Progress& progress = progress_.at(event.sequence);
  Completion& completion = progress.completion;
  completion.tokens.push_back(event.id);
  if (event.logits_digest) completion.logits_digests.push_back(*event.logits_digest);
  if (event.logprobs) completion.logprobs.push_back(*event.logprobs);
  if (!progress.first_token) {
    progress.first_token = now;
    completion.cached_tokens = table_.find(event.sequence)->prefix_hit();
    completion.times.queue = *progress.started - progress.submitted;
    completion.times.prefill = now - *progress.started;
  }
  if (!event.finish) return;
  completion.finish = *event.finish;
  completion.times.decode = now - *progress.first_token;
  end(event.sequence, std::nullopt);
}

Result<bool> LocalRunner::step(const OnToken& on_token) {
  if (table_.all().empty()) return false;
  const PlanDecision decision = plan_mixed(table_, pools_, rates_, plan_limits_);
  // Nothing is pinned in a process without transfers: some sequence can always move or must end.
  BATON_CHECK(!decision.step.empty() || !decision.preempt.empty() || !decision.cannot_grow.empty());
  apply(decision);
  BATON_ASSIGN(const StepEvents events, engine_.step(decision.step, nullptr));
  rates_.observe(events.shape, events.took);
  const Instant now = monotonic_now();
  for (const TokenEvent& event : events.tokens) {
    record(event, now);
    if (on_token) on_token(event);
  }
  for (const SequenceFailure& failure : events.failed) end(failure.sequence, failure.error);
  return true;
}

std::optional<Result<Completion>> LocalRunner::take(SequenceId id) {
  const auto at = progress_.find(id);
  if (at == progress_.end() || !at->second.ended) return std::nullopt;
  Progress progress = std::move(at->second);
  progress_.erase(at);
  if (progress.error) return Result<Completion>(*progress.error);
  return Result<Completion>(std::move(progress.completion));
}

void LocalRunner::drop(SequenceId id) {
  table_.remove(id, pools_);
  progress_.erase(id);
}

Result<Completion> LocalRunner::complete(SequenceSpec spec, const OnToken& on_token) {
  BATON_ASSIGN(const SequenceId id, submit(std::move(spec)));
  while (true) {
    if (const Result<bool> stepped = step(on_token); !stepped) {
      drop(id);
      return stepped.error();
    }
    auto outcome = take(id);
    if (outcome) return std::move(*outcome);
  }
}

}  // namespace baton::engine

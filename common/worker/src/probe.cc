#include "probe.h"

#include "baton/metrics/buckets.h"

namespace baton::worker {
namespace {

enum Outcome : std::size_t { finished, failed, cancelled };

}  // namespace

metrics::LabelAxis reason_axis() {
  metrics::LabelAxis axis{"reason", {}};
  for (std::uint32_t number = 0; reason_from_number(number); ++number) {
    axis.values.emplace_back(info(*reason_from_number(number)).label);
  }
  return axis;
}

Probe::Probe(metrics::Registry& r, protocol::Role role)
    : role_(role),
      outcomes_(r.counters("baton_requests_total", "Requests that ended here, by outcome",
                           {"outcome", {"finished", "failed", "cancelled"}})),
      refusals_(r.counters("baton_refusals_total", "Requests refused at admission, by reason",
                           reason_axis())),
      failures_(r.counters("baton_handoff_failures_total",
                           "Handoffs that were refused or failed, by reason", reason_axis())),
      units_refused_(r.counters("baton_handoff_units_refused_total",
                                "Data messages refused before a byte was taken, by reason",
                                reason_axis())),
      dropped_(r.counters("baton_control_dropped_total",
                          "Control messages dropped or connections refused, by reason",
                          reason_axis())),
      leases_expired_(
          r.counter("baton_leases_expired_total", "Requests ended since their router went silent")),
      orphans_freed_(r.counter("baton_orphans_freed_total",
                               "Requests ended since their router did not know them")),
      preemptions_(r.counter("baton_preemptions_total",
                             "Sequences that dropped their blocks and were recomputed")),
      handoff_seconds_(r.histogram("baton_handoff_seconds",
                                   "First units offered to the commit accepted, on the sender",
                                   metrics::phase_buckets_s)),
      handoff_bytes_(r.counters("baton_handoff_bytes_total", "Bytes of cache units moved",
                                {"direction", {"sent", "received"}})),
      forward_rows_(r.counters("baton_forward_rows_total",
                               "Rows given to the forward pass, counted there",
                               {"phase", {"prefill", "decode"}})),
      steps_(r.counter("baton_steps_total", "Forward passes")),
      prefix_queries_(r.counter("baton_prefix_cache_query_tokens_total",
                                "Tokens of requests that were looked up in the prefix cache")),
      prefix_hits_(
          r.counter("baton_prefix_cache_hit_tokens_total", "Tokens of these that were in it")),
      prompt_tokens_(r.counters("baton_prompt_tokens_total",
                                "Tokens of prompts (and of what was generated before) whose "
                                "cache was completed here, by origin; again in each attempt",
                                {"source", {"computed", "cached", "received"}})),
      queue_depth_(r.gauge("baton_queue_depth", "Requests that wait")),
      running_(r.gauge("baton_running_requests", "Requests that are computed")),
      backlog_seconds_(r.gauge("baton_prefill_backlog_seconds",
                               "Predicted time to compute the prompts that are queued")),
      handoffs_in_flight_(
          r.gauge("baton_handoffs_in_flight", "Handoffs begun and not accepted or ended")),
      load_seconds_(r.gauge("baton_model_load_seconds", "Time that loading the model took")),
      registry_(r) {
  r.gauge("baton_build_info", "Constant 1; the version is a label", {{"version", BATON_VERSION}})
      .set(1);
  cache_.push_back(cache_group(0));
}

Probe::CacheGroup Probe::cache_group(int group) {
  const metrics::Labels labels = {{"group", std::to_string(group)}};
  return {registry_.gauge("baton_cache_usage_ratio", "Share of the cache's blocks in use", labels),
          registry_.gauge("baton_cache_free_blocks",
                          "Blocks that can be taken at once, those kept as prefixes among them",
                          labels),
          registry_.gauge("baton_cache_prefix_blocks",
                          "Blocks that are kept as prefixes and held by nobody", labels),
          registry_.gauge("baton_cache_blocks", "Blocks in all", labels),
          registry_.gauge("baton_cache_quarantined_blocks", "Blocks held by open receives alone",
                          labels)};
}

void Probe::has_layer_groups(int groups) {
  for (int group = static_cast<int>(cache_.size()); group < groups; ++group) {
    cache_.push_back(cache_group(group));
  }
}

void Probe::counted(const Counted& event) {
  const auto reason = static_cast<std::size_t>(event.reason);
  switch (event.what) {
    case Countable::request_finished:
      outcomes_[Outcome::finished].add();
      break;
    case Countable::request_failed:
      outcomes_[Outcome::failed].add();
      break;
    case Countable::request_cancelled:
      outcomes_[Outcome::cancelled].add();
      break;
    case Countable::request_refused:
      refusals_[reason].add();
      break;
    case Countable::lease_expired:
      leases_expired_.add();
      break;
    case Countable::orphan_freed:
      orphans_freed_.add();
      break;
    case Countable::preempted:
      preemptions_.add();
      break;
    case Countable::handoff_accepted:
      if (role_ == protocol::Role::prefill) handoff_seconds_.observe(event.facts.total);
      break;
    case Countable::handoff_failed:
      failures_[reason].add();
      break;
  }
}

void Probe::step_computed(const engine::EngineCounters& counters) {
  steps_.add(static_cast<double>(counters.steps - last_.steps));
  forward_rows_[0].add(static_cast<double>(counters.prefill_rows - last_.prefill_rows));
  forward_rows_[1].add(static_cast<double>(counters.decode_rows - last_.decode_rows));
  last_ = counters;
}

void Probe::prefix_looked_up(const PrefixLookedUp& event) {
  prefix_queries_.add(static_cast<double>(event.query_tokens));
  prefix_hits_.add(static_cast<double>(event.hit_tokens));
}

void Probe::prompt_ready(const PromptReady& event) {
  prompt_tokens_[0].add(static_cast<double>(event.computed));
  prompt_tokens_[1].add(static_cast<double>(event.cached));
  prompt_tokens_[2].add(static_cast<double>(event.received));
}

void Probe::load_changed(const protocol::Load& load, const kvcache::BlockPools& pools) {
  queue_depth_.set(load.queued);
  running_.set(load.running);
  backlog_seconds_.set(seconds(load.backlog));
  handoffs_in_flight_.set(load.handoffs);
  for (int group = 0; group < pools.groups(); ++group) {
    const kvcache::PoolCounts counts = pools.counts(group);
    CacheGroup& gauges = cache_.at(static_cast<std::size_t>(group));
    gauges.usage.set(pools.usage(group));
    gauges.available.set(pools.available_blocks(group));
    gauges.cached.set(counts.cached);
    gauges.blocks.set(counts.total);
    gauges.quarantined.set(counts.quarantined);
  }
}

void Probe::bytes_moved(std::uint64_t sent, std::uint64_t received) {
  handoff_bytes_[0].add(static_cast<double>(sent));
  handoff_bytes_[1].add(static_cast<double>(received));
}

}  // namespace baton::worker

#include "probe.h"

#include "baton/metrics/buckets.h"

namespace baton::router {
namespace {

metrics::LabelAxis reason_axis() {
  metrics::LabelAxis axis{"reason", {}};
  for (std::uint32_t number = 0; reason_from_number(number); ++number) {
    axis.values.emplace_back(info(*reason_from_number(number)).label);
  }
  return axis;
}

}  // namespace

Probe::Probe(metrics::Registry& r)
    : ttft_(r.histogram("baton_time_to_first_token_seconds",
                        "Request received to the first token written to the client (streams)",
                        metrics::ttft_buckets_s)),
      tpot_(r.histogram("baton_time_per_output_token_seconds",
                        "Mean time per output token after the first",
                        metrics::token_gap_buckets_s)),
      itl_(r.histogram("baton_inter_token_latency_seconds",
                       "Gap between two tokens written to the client (streams)",
                       metrics::token_gap_buckets_s)),
      phases_(r.histograms(
          "baton_request_phase_seconds", "Parts of a request's time, each on one clock",
          metrics::phase_buckets_s,
          {"phase",
           {"queue", "prefill", "handoff_exposed", "first_decode", "decode", "unaccounted"}})),
      handoff_travel_(r.histogram("baton_handoff_travel_seconds",
                                  "Part of handoff_exposed in which its messages were on their way",
                                  metrics::phase_buckets_s)),
      requests_(r.counters("baton_requests_total", "Requests that ended, by outcome",
                           {"outcome", {"stop", "length", "error", "refused", "cancelled"}})),
      errors_(r.counters("baton_request_errors_total", "Requests that failed, by reason",
                         reason_axis())),
      attempts_(r.counters("baton_attempts_total", "New attempts after a failure, by reason",
                           reason_axis())),
      handoff_seconds_(r.histogram("baton_handoff_seconds",
                                   "First units offered to the commit accepted",
                                   metrics::phase_buckets_s)),
      handoff_bytes_(r.counter("baton_handoff_bytes_total", "Bytes of cache units handed over")),
      handoff_held_units_(r.counter("baton_handoff_held_units_total",
                                    "Cache units that decode nodes held and nobody sent")),
      handoff_failures_(r.counters("baton_handoff_failures_total",
                                   "Handoffs that failed, by reason", reason_axis())),
      dropped_(r.counters("baton_control_dropped_total", "Control messages dropped, by reason",
                          reason_axis())),
      tokens_(r.counters("baton_tokens_total", "Tokens of ended requests",
                         {"kind", {"prompt", "generated"}})),
      handoffs_in_flight_(r.gauge("baton_handoffs_in_flight", "Handoffs begun and not owned yet")),
      queue_depth_(r.gauge("baton_queue_depth", "Requests that wait for workers")),
      running_(r.gauge("baton_running_requests", "Requests that are placed on workers")),
      debts_(r.gauge("baton_unconfirmed_releases", "Releases that workers have not confirmed")),
      workers_up_(r.gauges("baton_workers_up", "Workers that are connected and answer",
                           {"worker_role", {"prefill", "decode"}})) {
  r.gauge("baton_build_info", "Constant 1; the version is a label", {{"version", BATON_VERSION}})
      .set(1);
}

void Probe::answer_written(const RequestTimes& times) {
  phases_[Phase::queue].observe(times.queue);
  phases_[Phase::prefill].observe(times.prefill);
  phases_[Phase::handoff_exposed].observe(times.handoff_exposed);
  phases_[Phase::first_decode].observe(times.first_decode);
  phases_[Phase::decode].observe(times.decode);
  phases_[Phase::unaccounted].observe(times.unaccounted);
  handoff_travel_.observe(times.handoff_travel);
}

void Probe::tokens_written(Duration decoding, std::int64_t tokens_after_first) {
  if (tokens_after_first > 0) tpot_.observe(decoding / tokens_after_first);
}

void Probe::handoff_done(const protocol::HandoffFacts& facts) {
  handoff_seconds_.observe(facts.total);
  handoff_bytes_.add(static_cast<double>(facts.bytes));
  handoff_held_units_.add(static_cast<double>(facts.held_units));
}

void Probe::tokens_counted(std::int64_t prompt, std::int64_t generated) {
  tokens_[0].add(static_cast<double>(prompt));
  tokens_[1].add(static_cast<double>(generated));
}

void Probe::table_changed(const HandoffTable& table) {
  handoffs_in_flight_.set(static_cast<double>(table.handoffs_in_flight()));
  queue_depth_.set(static_cast<double>(table.queued()));
  running_.set(static_cast<double>(table.live() - table.queued()));
  debts_.set(static_cast<double>(table.debts()));
  double up[2] = {0, 0};
  for (const auto& [node, worker] : table.workers().all()) {
    if (worker.up) ++up[worker.role == protocol::Role::prefill ? 0 : 1];
  }
  workers_up_[0].set(up[0]);
  workers_up_[1].set(up[1]);
}

}  // namespace baton::router

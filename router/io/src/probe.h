// What a router measures. Each method is a verb.
#pragma once

#include "baton/metrics/registry.h"
#include "baton/router/core/handoff_table.h"
#include "baton/router/core/request_times.h"

namespace baton::router {

enum class Outcome : std::uint8_t { stop, length, error, refused, cancelled };
enum class Phase : std::uint8_t {
  queue,
  prefill,
  handoff_exposed,
  first_decode,
  decode,
  unaccounted,
};

class Probe {
 public:
  explicit Probe(metrics::Registry& registry);

  void first_token_written(Duration after_received) { ttft_.observe(after_received); }
  void token_written(Duration after_last) { itl_.observe(after_last); }
  void request_ended(Outcome outcome) { requests_[outcome].add(); }
  void request_failed(Reason reason) { errors_[reason].add(); }
  /// The client has its whole answer.
  void answer_written(const RequestTimes& times);
  /// `decoding`: first to last token written.
  void tokens_written(Duration decoding, std::int64_t tokens_after_first);
  void attempt_made(Reason reason) { attempts_[reason].add(); }
  void handoff_done(const protocol::HandoffFacts& facts);
  void handoff_failed(Reason reason) { handoff_failures_[reason].add(); }
  void dropped(Reason reason) { dropped_[reason].add(); }
  void tokens_counted(std::int64_t prompt, std::int64_t generated);
  void table_changed(const HandoffTable& table);

 private:
  metrics::Histogram ttft_;
  metrics::Histogram tpot_;
  metrics::Histogram itl_;
  metrics::Set<metrics::Histogram> phases_;
  metrics::Histogram handoff_travel_;
  metrics::Set<metrics::Counter> requests_;
  metrics::Set<metrics::Counter> errors_;
  metrics::Set<metrics::Counter> attempts_;
  metrics::Histogram handoff_seconds_;
  metrics::Counter handoff_bytes_;
  metrics::Counter handoff_held_units_;
  metrics::Set<metrics::Counter> handoff_failures_;
  metrics::Set<metrics::Counter> dropped_;
  metrics::Set<metrics::Counter> tokens_;
  metrics::Gauge handoffs_in_flight_;
  metrics::Gauge queue_depth_;
  metrics::Gauge running_;
  metrics::Gauge debts_;
  metrics::Set<metrics::Gauge> workers_up_;
};

}  // namespace baton::router

// The one table of reasons. Everything that is refused, retried or failed has a reason from here:
// the wire carries its number, the API its HTTP status and OpenAI code, the metrics its label.
// Wire rule: numbers are append-only and are never given a second meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace baton {

/// What a caller may do after a failure with this reason.
enum class Retry : std::uint8_t { never, here, elsewhere };

// X(number, name, HTTP status, OpenAI code, retry)
#define BATON_REASONS(X)                                               \
  X(0, internal, 500, "internal_error", elsewhere)                     \
  X(1, invalid_request, 400, "invalid_request", never)                 \
  X(2, unsupported_parameter, 400, "unsupported_parameter", never)     \
  X(3, context_length_exceeded, 400, "context_length_exceeded", never) \
  X(4, model_not_found, 404, "model_not_found", never)                 \
  X(5, not_found, 404, "not_found", never)                             \
  X(6, method_not_allowed, 405, "method_not_allowed", never)           \
  X(7, request_timeout, 408, "request_timeout", never)                 \
  X(8, body_too_large, 413, "body_too_large", never)                   \
  X(9, header_too_large, 431, "header_too_large", never)               \
  X(10, unauthenticated, 401, "invalid_api_key", never)                \
  X(11, rate_limited, 429, "rate_limit_exceeded", here)                \
  X(12, overloaded, 503, "overloaded", elsewhere)                      \
  X(13, no_worker, 503, "no_worker", here)                             \
  X(14, draining, 503, "draining", elsewhere)                          \
  X(15, worker_lost, 502, "worker_lost", elsewhere)                    \
  X(16, deadline_exceeded, 504, "deadline_exceeded", elsewhere)        \
  X(17, cancelled, 499, "cancelled", never)                            \
  X(18, bad_config, 500, "bad_config", never)                          \
  X(19, bad_model_file, 500, "bad_model_file", never)                  \
  X(20, io_error, 500, "io_error", elsewhere)                          \
  X(21, protocol_violation, 502, "protocol_violation", elsewhere)      \
  X(22, version_mismatch, 502, "version_mismatch", never)              \
  X(23, fingerprint_mismatch, 502, "fingerprint_mismatch", elsewhere)  \
  X(24, stale_epoch, 502, "stale_epoch", elsewhere)                    \
  X(25, stale_attempt, 502, "stale_attempt", never)                    \
  X(26, stale_generation, 502, "stale_generation", elsewhere)          \
  X(27, length_mismatch, 502, "length_mismatch", elsewhere)            \
  X(28, digest_mismatch, 502, "digest_mismatch", elsewhere)            \
  X(29, missing_units, 502, "missing_units", elsewhere)                \
  X(30, unknown_component, 502, "unknown_component", never)            \
  X(31, out_of_range, 502, "out_of_range", elsewhere)                  \
  X(32, no_space, 503, "no_space", elsewhere)                          \
  X(33, released, 502, "released", elsewhere)                          \
  X(34, lease_expired, 502, "lease_expired", elsewhere)                \
  X(35, unknown_request, 502, "unknown_request", elsewhere)            \
  X(36, cannot_grow, 503, "cannot_grow", elsewhere)                    \
  X(37, transport_failed, 502, "transport_failed", elsewhere)          \
  X(38, duplicate_node, 502, "duplicate_node", never)                  \
  X(39, superseded, 502, "superseded", never)                          \
  X(40, prompt_exceeds_pool, 400, "context_length_exceeded", never)    \
  X(41, no_chat_template, 400, "no_chat_template", never)              \
  X(42, duplicate, 502, "duplicate", never)                            \
  X(43, held_units_differ, 502, "held_units_differ", elsewhere)

enum class Reason : std::uint16_t {
#define BATON_X(number, name, status, code, retry) name = number,
  BATON_REASONS(BATON_X)
#undef BATON_X
};

struct ReasonInfo {
  Reason reason;
  std::string_view label;  ///< metric label and log word, equal to the enumerator's name
  int http_status;
  std::string_view openai_code;
  Retry retry;
};

const ReasonInfo& info(Reason reason);

/// The reason with this wire number; nothing for a number of a newer peer.
std::optional<Reason> reason_from_number(std::uint32_t number);

}  // namespace baton

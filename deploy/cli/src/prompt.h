// What is asked and what came back, whichever way it was computed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/json/object.hpp>

#include "baton/base/ids.h"
#include "baton/base/result.h"

namespace baton::cli {

struct Turn {
  std::string role;
  std::string content;

  friend bool operator==(const Turn&, const Turn&) = default;
};

struct Sampling {
  std::int64_t max_tokens = 128;
  double temperature = 0;  ///< 0: greedy
  double top_p = 1;
  std::int64_t top_k = 0;  ///< 0: off
  std::optional<std::int64_t> seed;
  bool ignore_eos = false;
  bool logits_digest = false;

  friend bool operator==(const Sampling&, const Sampling&) = default;
};

struct Prompt {
  /// Text to continue, ids to continue, or turns for the model's chat template.
  std::variant<std::string, std::vector<TokenId>, std::vector<Turn>> content;
  Sampling sampling;
};

struct Answer {
  std::string text;
  std::vector<TokenId> token_ids;
  std::vector<std::string> logits_digests;  ///< one per token, when asked for
  std::string finish_reason;
  std::int64_t prompt_tokens = 0;
  /// times_ms and, through a cluster, handoff, decode, prefill, attempts, as in the API's
  /// `baton` extension
  boost::json::object facts;
};

/// One line of JSON: the answer's fields, with the facts' keys beside them.
std::string answer_json(const Answer& answer);
std::string error_json(const Error& error);

/// Token ids separated by blanks, commas or brackets. Reason::invalid_request for anything else.
Result<std::vector<TokenId>> parse_ids(std::string_view text);

/// One line of a batch file: {"prompt": "…" | [ids], "max_tokens": n, "temperature": t, "seed": n,
/// "ignore_eos": b}; what is absent comes from `defaults`. `chat`: a text prompt is a user's turn.
Result<Prompt> parse_batch_line(std::string_view line, const Sampling& defaults, bool chat);

/// The whole file; blank lines are skipped, errors name the line.
Result<std::vector<Prompt>> read_batch(const std::string& path, const Sampling& defaults,
                                       bool chat);
/// Reason::invalid_request when it cannot be read.
Result<std::string> read_file(const std::string& path);

}  // namespace baton::cli

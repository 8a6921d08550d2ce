// OpenAI's response bodies and stream chunks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "baton/base/result.h"
#include "baton/protocol/messages.h"
#include "baton/router/api/request.h"
#include "baton/router/core/request_times.h"
#include "baton/tokenizer/tokenizer.h"

namespace baton::router {

/// What stands in every chunk of one answer.
struct AnswerHead {
  ApiKind kind = ApiKind::chat;
  std::string id;  ///< "chatcmpl-…" or "cmpl-…"
  std::string model;
  std::int64_t created_s = 0;  ///< Unix time
  std::string fingerprint;
  bool include_usage = false;  ///< every chunk then has a usage field, null but for the last
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;
};

/// "stop" or "length".
const char* finish_word(protocol::FinishReason finish);

/// Code points of a text in UTF-8.
std::int64_t characters_of(std::string_view text);

/// Log-probabilities of some tokens in the form of the API kind. `text_offset` is the number of
/// characters of the answer before the first of them (completions).
boost::json::value logprobs_json(ApiKind kind, const std::vector<Delivered>& tokens,
                                 const tokenizer::Tokenizer& tokenizer, std::int64_t text_offset);

/// A stream chunk with text; the first chat chunk carries the role.
std::string chunk(const AnswerHead& head, const std::string& text, bool with_role,
                  boost::json::value logprobs);
/// The chunk that ends a choice.
std::string finish_chunk(const AnswerHead& head, const std::string& text,
                         protocol::FinishReason finish, boost::json::value logprobs,
                         std::optional<boost::json::object> trace);
/// The chunk after it, with empty choices, when usage was asked for.
std::string usage_chunk(const AnswerHead& head, const Usage& usage);

/// The whole answer in one body.
std::string whole_body(const AnswerHead& head, const std::string& text,
                       protocol::FinishReason finish, boost::json::value logprobs,
                       const Usage& usage, std::optional<boost::json::object> trace);

/// {"error": {message, type, param, code}}.
std::string error_body(const Error& error, const std::string& param = "");

/// `{"baton": {"trace": true}}`: where the request's time went and what crossed.
boost::json::object trace_json(const RequestFacts& facts, const RequestTimes& times,
                               const std::vector<Delivered>& tokens);

}  // namespace baton::router

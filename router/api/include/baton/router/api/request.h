// An OpenAI-style request body as a value: every field known and checked, or refused by name.
// Nothing is silently ignored; null means absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/json/value.hpp>

#include "baton/base/result.h"
#include "baton/protocol/messages.h"
#include "baton/tokenizer/jinja/chat_template.h"

namespace baton::router {

/// An error together with the request field at fault (OpenAI's `param`); empty when none is.
struct ApiError {
  Error error;
  std::string param;
};

/// The text's beginning, cut between two code points, for error messages.
std::string clipped(std::string_view text, std::size_t most_bytes);

enum class ApiKind : std::uint8_t { chat, completion };

struct ApiRequest {
  ApiKind kind = ApiKind::chat;
  std::optional<std::string> model;
  tokenizer::jinja::ChatRequest chat;                      ///< chat
  std::variant<std::string, std::vector<TokenId>> prompt;  ///< completion
  bool stream = false;
  bool include_usage = false;
  std::optional<std::int64_t> max_tokens;
  protocol::Sampling sampling;  ///< max_tokens and seed are set by the router
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stop;  ///< at most 4, each 1 to 64 bytes
  bool trace = false;             ///< `baton: {"trace": true}`
};

/// Body of /v1/chat/completions or /v1/completions.
boost::system::result<ApiRequest, ApiError> parse_request(ApiKind kind, std::string_view body);

/// Body of /tokenize: text or messages.
struct TokenizeRequest {
  std::optional<std::string> model;
  std::optional<std::string> prompt;
  tokenizer::jinja::ChatRequest chat;
  bool add_special_tokens = true;
};
boost::system::result<TokenizeRequest, ApiError> parse_tokenize(std::string_view body);

struct DetokenizeRequest {
  std::optional<std::string> model;
  std::vector<TokenId> tokens;
};
boost::system::result<DetokenizeRequest, ApiError> parse_detokenize(std::string_view body);

/// Found by argument-dependent look-up when value() of a failed result is called.
[[noreturn]] void throw_exception_from_error(const ApiError& error,
                                             const boost::source_location& location);

}  // namespace baton::router

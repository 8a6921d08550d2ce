#include "baton/router/api/request.h"

#include <charconv>
#include <limits>
#include <stdexcept>

#include <boost/json/parse.hpp>
#include <fmt/format.h>

#include "fields.h"

namespace baton::router {
namespace json = boost::json;

namespace {

constexpr std::size_t max_json_depth = 32;
constexpr std::size_t max_stops = 4;
constexpr std::size_t max_stop_bytes = 64;
constexpr std::size_t max_biases = 300;
constexpr std::size_t max_stop_ids = 64;
constexpr std::size_t max_messages = 4096;
constexpr std::int64_t max_top_logprobs = 20;
constexpr std::int64_t max_token_count = 1'000'000'000;
constexpr std::int64_t max_token_id = std::numeric_limits<TokenId>::max();

ApiError invalid(const std::string& message, const std::string& param = "") {
  return {Error(Reason::invalid_request, message), param};
}

boost::system::result<json::object, ApiError> parse_object(std::string_view body) {
  json::parse_options options;
  options.max_depth = max_json_depth;
  boost::system::error_code error;
  json::value value = json::parse(body, error, json::storage_ptr(), options);
  if (error) return invalid("the body is not valid JSON: " + error.message());
  if (!value.is_object()) return invalid("the body must be a JSON object");
  return std::move(value.as_object());
}

// ---- messages ----

/// Text, or a list of text parts (R21: no part may bring a URL, file or image).
std::optional<std::string> content_of(const json::value& value, Fields& fields,
                                      const std::string& where) {
  if (value.is_string()) return std::string(value.as_string());
  if (!value.is_array()) {
    fields.fail("messages", Reason::invalid_request, where + ".content must be text");
    return std::nullopt;
  }
  std::string text;
  for (const json::value& part : value.as_array()) {
    const json::object* object = part.if_object();
    const json::value* type = object == nullptr ? nullptr : object->if_contains("type");
    const json::value* body = object == nullptr ? nullptr : object->if_contains("text");
    const bool text_only = object != nullptr && object->size() == 2;
    if (!text_only || type == nullptr || *type != "text" || body == nullptr || !body->is_string()) {
      fields.fail("messages", Reason::unsupported_parameter,
                  where + ".content: only parts {type: text, text: …} are supported");
      return std::nullopt;
    }
    text += std::string_view(body->as_string());
  }
  return text;
}

tokenizer::jinja::ChatMessage message_of(const json::object& object, Fields& fields,
                                         const std::string& where) {
  tokenizer::jinja::ChatMessage message;
  Fields each(object, where + ".");
  message.role = each.string("role").value_or("");
  if (!tokenizer::jinja::is_allowed_role(message.role)) {
    each.fail("role", Reason::invalid_request,
              where + ".role must be system, developer, user, assistant or tool");
  }
  if (const json::value* content = each.find("content")) {
    message.content = content_of(*content, fields, where);
  }
  message.name = each.string("name");
  message.reasoning_content = each.string("reasoning_content");
  message.tool_call_id = each.string("tool_call_id");
  if (const json::value* calls = each.find("tool_calls")) message.tool_calls = *calls;
  each.only("refusal", nullptr);
  each.only("audio", nullptr);
  each.only("function_call", nullptr);
  if (auto error = each.finish()) {
    fields.fail("messages", error->error.reason(), error->error.message());
  }
  return message;
}

void read_messages(Fields& fields, tokenizer::jinja::ChatRequest& chat) {
  const json::value* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->as_array().empty()) {
    return fields.fail("messages", Reason::invalid_request, "messages must be a non-empty list");
  }
  if (messages->as_array().size() > max_messages) {
    return fields.fail("messages", Reason::invalid_request, "there are too many messages");
  }
  std::size_t index = 0;
  for (const json::value& message : messages->as_array()) {
    const std::string where = fmt::format("messages[{}]", index++);
    if (!message.is_object()) {
      return fields.fail("messages", Reason::invalid_request, where + " must be an object");
    }
    chat.messages.push_back(message_of(message.as_object(), fields, where));
    if (fields.failed()) return;
  }
  chat.add_generation_prompt = fields.boolean("add_generation_prompt", true);
  if (const json::value* arguments = fields.find("chat_template_kwargs")) {
    if (!arguments->is_object()) {
      return fields.fail("chat_template_kwargs", Reason::invalid_request,
                         "chat_template_kwargs must be an object");
    }
    Fields each(arguments->as_object(), "chat_template_kwargs.");
    chat.enable_thinking = each.find_boolean("enable_thinking");
    if (auto error = each.finish()) {
      fields.fail("chat_template_kwargs", error->error.reason(), error->error.message());
    }
  }
}

// ---- sampling ----

void read_stops(Fields& fields, ApiRequest& request) {
  const json::value* stop = fields.find("stop");
  if (stop == nullptr) return;
  const auto add = [&](const json::value& each) {
    if (!each.is_string() || each.as_string().empty() || each.as_string().size() > max_stop_bytes) {
      return fields.fail("stop", Reason::invalid_request,
                         "stop must be up to 4 strings of 1 to 64 bytes");
    }
    request.stop.emplace_back(each.as_string());
  };
  if (!stop->is_array()) return add(*stop);
  if (stop->as_array().size() > max_stops) {
    return fields.fail("stop", Reason::invalid_request, "stop has more than 4 entries");
  }
  for (const json::value& each : stop->as_array()) add(each);
}

void read_ids(Fields& fields, std::string_view name, const json::value& value, std::size_t limit,
              std::vector<TokenId>& out) {
  const auto bad = [&] {
    fields.fail(name, Reason::invalid_request,
                fmt::format("{} must be a list of at most {} token ids", name, limit));
  };
  if (!value.is_array() || value.as_array().size() > limit) return bad();
  for (const json::value& each : value.as_array()) {
    boost::system::error_code error;
    const auto id = each.is_number() ? each.to_number<std::int64_t>(error) : -1;
    if (error || id < 0 || id > max_token_id) return bad();
    out.push_back(static_cast<TokenId>(id));
  }
}

void read_biases(Fields& fields, protocol::Sampling& sampling) {
  const json::value* biases = fields.find("logit_bias");
  if (biases == nullptr) return;
  const auto bad = [&] {
    fields.fail("logit_bias", Reason::invalid_request,
                "logit_bias must map at most 300 token ids to numbers from -100 to 100");
  };
  if (!biases->is_object() || biases->as_object().size() > max_biases) return bad();
  for (const auto& [key, value] : biases->as_object()) {
    TokenId id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const double bias = value.is_number() ? value.to_number<double>() : 1e9;
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || !(bias >= -100.0) ||
        !(bias <= 100.0)) {
      return bad();
    }
    sampling.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
}

void read_logprobs(Fields& fields, ApiRequest& request) {
  if (request.kind == ApiKind::completion) {
    const auto count = fields.integer("logprobs", 0, max_top_logprobs);
    if (count) request.sampling.logprobs = static_cast<std::int32_t>(*count);
    return;
  }
  const bool wanted = fields.boolean("logprobs", false);
  const auto top = fields.integer("top_logprobs", 0, max_top_logprobs);
  if (wanted) request.sampling.logprobs = static_cast<std::int32_t>(top.value_or(0));
  if (!wanted && top.value_or(0) > 0) {
    fields.fail("top_logprobs", Reason::invalid_request, "top_logprobs needs logprobs: true");
  }
}

void read_sampling(Fields& fields, ApiRequest& request) {
  protocol::Sampling& sampling = request.sampling;
  constexpr float large = 1e6F;
  sampling.temperature = fields.number("temperature", 1, 0, 100);
  sampling.top_p = fields.number("top_p", 1, 1e-6F, 1);
  sampling.min_p = fields.number("min_p", 0, 0, 1);
  // vLLM's spelling of "off" is -1.
  const auto top_k = fields.integer("top_k", -1, max_token_id);
  sampling.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(0, top_k.value_or(0)));
  sampling.repetition_penalty = fields.number("repetition_penalty", 1, 1e-3F, large);
  sampling.presence_penalty = fields.number("presence_penalty", 0, -2, 2);
  sampling.frequency_penalty = fields.number("frequency_penalty", 0, -2, 2);
  sampling.ignore_eos = fields.boolean("ignore_eos", false);
  sampling.min_tokens =
      static_cast<std::int32_t>(fields.integer("min_tokens", 0, max_token_id).value_or(0));
  const auto seed = fields.integer("seed", std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max());
  if (seed) request.seed = static_cast<std::uint64_t>(*seed);
  if (const json::value* ids = fields.find("stop_token_ids")) {
    read_ids(fields, "stop_token_ids", *ids, max_stop_ids, sampling.stop_ids);
  }
  read_biases(fields, sampling);
  read_logprobs(fields, request);
  read_stops(fields, request);
}

/// Fields that clients send with a value that changes nothing.
void read_defaults(Fields& fields, ApiRequest& request) {
  fields.only("n", 1);
  fields.only("best_of", 1);
  fields.only("echo", false);
  fields.only("suffix", nullptr);
  fields.only("skip_special_tokens", true);
  fields.only("spaces_between_special_tokens", true);
  fields.only("use_beam_search", false);
  fields.only("store", false);
  fields.only("service_tier", "auto");
  fields.only("tools", json::array());
  fields.only("tool_choice", "none");
  fields.only("parallel_tool_calls", true);
  fields.only("response_format", json::object{{"type", "text"}});
  fields.only("modalities", json::array{"text"});
  fields.find("user");      // a label for the client's own use (R9)
  fields.find("metadata");  // the same
  if (const json::value* options = fields.find("stream_options")) {
    if (!options->is_object() || !request.stream) {
      return fields.fail("stream_options", Reason::invalid_request,
                         "stream_options must be an object and needs stream: true");
    }
    Fields each(options->as_object(), "stream_options.");
    request.include_usage = each.boolean("include_usage", false);
    each.only("continuous_usage_stats", false);
    if (auto error = each.finish()) {
      fields.fail("stream_options", error->error.reason(), error->error.message());
    }
  }
}

void read_extension(Fields& fields, ApiRequest& request) {
  const json::value* extension = fields.find("baton");
  if (extension == nullptr) return;
  if (!extension->is_object()) {
    return fields.fail("baton", Reason::invalid_request, "baton must be an object");
  }
  Fields each(extension->as_object(), "baton.");
  request.trace = each.boolean("trace", false);
  request.sampling.logits_digest = each.boolean("logits_digest", false);
  if (auto error = each.finish())
    fields.fail("baton", error->error.reason(), error->error.message());
}

void read_max_tokens(Fields& fields, ApiRequest& request) {
  const auto tokens = fields.integer("max_tokens", 1, max_token_count);
  request.max_tokens = tokens;
  if (request.kind != ApiKind::chat) return;
  const auto newer = fields.integer("max_completion_tokens", 1, max_token_count);
  if (newer) request.max_tokens = newer;
}

void read_prompt(Fields& fields, ApiRequest& request) {
  const json::value* prompt = fields.find("prompt");
  if (prompt == nullptr) {
    return fields.fail("prompt", Reason::invalid_request, "prompt is missing");
  }
  // A list with one prompt is that prompt.
  if (prompt->is_array() && prompt->as_array().size() == 1 &&
      !prompt->as_array().front().is_number()) {
    prompt = &prompt->as_array().front();
  }
  if (prompt->is_string()) {
    request.prompt = std::string(prompt->as_string());
    return;
  }
  if (prompt->is_array() && !prompt->as_array().empty() &&
      !prompt->as_array().front().is_number()) {
    return fields.fail("prompt", Reason::unsupported_parameter,
                       "prompt: only one prompt a request is supported");
  }
  std::vector<TokenId> ids;
  constexpr std::size_t most_ids = 200'000;
  read_ids(fields, "prompt", *prompt, most_ids, ids);
  if (ids.empty()) {
    fields.fail("prompt", Reason::invalid_request, "prompt must be text or token ids, not empty");
  }
  request.prompt = std::move(ids);
}

}  // namespace

boost::system::result<ApiRequest, ApiError> parse_request(ApiKind kind, std::string_view body) {
  auto object = parse_object(body);
  if (!object) return object.error();
  Fields fields(*object, "");
  ApiRequest request;
  request.kind = kind;
  request.model = fields.string("model");
  request.stream = fields.boolean("stream", false);
  if (kind == ApiKind::chat) {
    read_messages(fields, request.chat);
  } else {
    read_prompt(fields, request);
  }
  read_max_tokens(fields, request);
  read_sampling(fields, request);
  read_defaults(fields, request);
  read_extension(fields, request);
  if (auto error = fields.finish()) return *error;
  return request;
}

boost::system::result<TokenizeRequest, ApiError> parse_tokenize(std::string_view body) {
  auto object = parse_object(body);
  if (!object) return object.error();
  Fields fields(*object, "");
  TokenizeRequest request;
  request.model = fields.string("model");
  request.prompt = fields.string("prompt");
  request.add_special_tokens = fields.boolean("add_special_tokens", true);
  fields.only("return_token_strs", false);
  if (!request.prompt && !fields.failed()) read_messages(fields, request.chat);
  if (auto error = fields.finish()) return *error;
  return request;
}

boost::system::result<DetokenizeRequest, ApiError> parse_detokenize(std::string_view body) {
  auto object = parse_object(body);
  if (!object) return object.error();
  Fields fields(*object, "");
  DetokenizeRequest request;
  request.model = fields.string("model");
  constexpr std::size_t most_ids = 200'000;
  if (const json::value* tokens = fields.find("tokens")) {
    read_ids(fields, "tokens", *tokens, most_ids, request.tokens);
  } else {
    fields.fail("tokens", Reason::invalid_request, "tokens is missing");
  }
  if (auto error = fields.finish()) return *error;
  return request;
}

void throw_exception_from_error(const ApiError& error, const boost::source_location&) {
  throw std::logic_error("value() of a failed result: " + error.error.message());
}

}  // namespace baton::router

#include "baton/router/api/response.h"

#include <algorithm>
#include <string_view>

#include <boost/json/serialize.hpp>

#include "baton/tokenizer/detokenizer.h"

namespace baton::router {
namespace json = boost::json;

namespace {

json::object base(const AnswerHead& head, bool is_chunk) {
  const char* object = head.kind == ApiKind::completion ? "text_completion"
                       : is_chunk                       ? "chat.completion.chunk"
                                                        : "chat.completion";
  return {{"id", head.id},
          {"object", object},
          {"created", head.created_s},
          {"model", head.model},
          {"system_fingerprint", head.fingerprint}};
}

json::object usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

json::value finish_json(std::optional<protocol::FinishReason> finish) {
  if (!finish) return nullptr;
  return json::value(finish_word(*finish));
}

std::string with_choice(const AnswerHead& head, json::object choice,
                        std::optional<json::object> trace) {
  json::object out = base(head, true);
  out["choices"] = json::array{std::move(choice)};
  if (head.include_usage) out["usage"] = nullptr;
  if (trace) out["baton"] = std::move(*trace);
  return json::serialize(out);
}

json::object chunk_choice(const AnswerHead& head, const std::string& text, bool with_role,
                          json::value logprobs, std::optional<protocol::FinishReason> finish) {
  json::object choice{{"index", 0}};
  if (head.kind == ApiKind::completion) {
    choice["text"] = text;
  } else {
    json::object delta;
    if (with_role) delta["role"] = "assistant";
    if (with_role || !text.empty()) delta["content"] = text;
    choice["delta"] = std::move(delta);
  }
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = finish_json(finish);
  return choice;
}

/// A token's text: as much of it as is text by itself, U+FFFD elsewhere (API-32: `bytes` is exact).
std::string token_text(const tokenizer::Tokenizer& tokenizer, TokenId id) {
  tokenizer::Utf8Stream stream;
  const std::string text = stream.push(tokenizer.bytes(id));
  return text + stream.flush();
}

json::object chat_logprob(const tokenizer::Tokenizer& tokenizer, TokenId id, float logprob) {
  json::array bytes;
  for (char byte : tokenizer.bytes(id)) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", token_text(tokenizer, id)}, {"logprob", logprob}, {"bytes", bytes}};
}

json::value chat_logprobs(const std::vector<Delivered>& tokens,
                          const tokenizer::Tokenizer& tokenizer) {
  json::array content;
  for (const Delivered& token : tokens) {
    json::object entry = chat_logprob(tokenizer, token.id, token.logprob->chosen);
    json::array top;
    for (const auto& [id, value] : token.logprob->top) {
      top.push_back(chat_logprob(tokenizer, id, value));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return json::object{{"content", std::move(content)}, {"refusal", nullptr}};
}

json::value completion_logprobs(const std::vector<Delivered>& tokens,
                                const tokenizer::Tokenizer& tokenizer, std::int64_t text_offset) {
  json::array texts;
  json::array values;
  json::array tops;
  json::array offsets;
  for (const Delivered& token : tokens) {
    const std::string text = token_text(tokenizer, token.id);
    texts.push_back(json::value(text));
    values.push_back(token.logprob->chosen);
    json::object top;
    for (const auto& [id, value] : token.logprob->top) top[token_text(tokenizer, id)] = value;
    top[text] = token.logprob->chosen;
    tops.push_back(std::move(top));
    offsets.push_back(text_offset);
    text_offset += characters_of(text);
  }
  return json::object{{"tokens", std::move(texts)},
                      {"token_logprobs", std::move(values)},
                      {"top_logprobs", std::move(tops)},
                      {"text_offset", std::move(offsets)}};
}

double ms(Duration duration) { return seconds(duration) * 1000; }

}  // namespace

std::int64_t characters_of(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

const char* finish_word(protocol::FinishReason finish) {
  return finish == protocol::FinishReason::stop ? "stop" : "length";
}

json::value logprobs_json(ApiKind kind, const std::vector<Delivered>& tokens,
                          const tokenizer::Tokenizer& tokenizer, std::int64_t text_offset) {
  if (tokens.empty() || !tokens.front().logprob) return nullptr;
  return kind == ApiKind::chat ? chat_logprobs(tokens, tokenizer)
                               : completion_logprobs(tokens, tokenizer, text_offset);
}

std::string chunk(const AnswerHead& head, const std::string& text, bool with_role,
                  json::value logprobs) {
  return with_choice(head, chunk_choice(head, text, with_role, std::move(logprobs), std::nullopt),
                     std::nullopt);
}

std::string finish_chunk(const AnswerHead& head, const std::string& text,
                         protocol::FinishReason finish, json::value logprobs,
                         std::optional<json::object> trace) {
  return with_choice(head, chunk_choice(head, text, false, std::move(logprobs), finish),
                     std::move(trace));
}

std::string usage_chunk(const AnswerHead& head, const Usage& usage) {
  json::object out = base(head, true);
  out["choices"] = json::array();
  out["usage"] = usage_json(usage);
  return json::serialize(out);
}

std::string whole_body(const AnswerHead& head, const std::string& text,
                       protocol::FinishReason finish, json::value logprobs, const Usage& usage,
                       std::optional<json::object> trace) {
  json::object choice{{"index", 0}};
  if (head.kind == ApiKind::completion) {
    choice["text"] = text;
  } else {
    choice["message"] =
        json::object{{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
  }
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = finish_word(finish);
  json::object out = base(head, false);
  out["choices"] = json::array{std::move(choice)};
  out["usage"] = usage_json(usage);
  if (trace) out["baton"] = std::move(*trace);
  return json::serialize(out);
}

std::string error_body(const Error& error, const std::string& param) {
  const ReasonInfo& reason = info(error.reason());
  const char* type = reason.http_status < 500 ? "invalid_request_error" : "server_error";
  json::object inner{{"message", error.message()}, {"type", type}};
  inner["param"] = param.empty() ? json::value(nullptr) : json::value(param);
  inner["code"] = json::value(json::string(reason.openai_code));
  return json::serialize(json::object{{"error", std::move(inner)}});
}

json::object trace_json(const RequestFacts& facts, const RequestTimes& times,
                        const std::vector<Delivered>& tokens) {
  json::array ids;
  json::array digests;
  for (const Delivered& token : tokens) {
    ids.push_back(token.id);
    if (token.digest) digests.push_back(json::value(token.digest->to_string()));
  }
  return {
      {"times_ms",
       {{"queue", ms(times.queue)},
        {"prefill", ms(times.prefill)},
        {"handoff_exposed", ms(times.handoff_exposed)},
        {"handoff_travel", ms(times.handoff_travel)},
        {"first_decode", ms(times.first_decode)},
        {"decode", ms(times.decode)},
        {"unaccounted", ms(times.unaccounted)},
        {"total", ms(times.total)}}},
      {"handoff",
       {{"transport", facts.handoff.transport},
        {"units", facts.handoff.units},
        {"bytes", facts.handoff.bytes},
        {"held_units", facts.handoff.held_units},
        {"total_ms", ms(facts.handoff.total)},
        {"first_unit_sent_ms", ms(facts.handoff.first_unit_sent)},
        {"last_layer_computed_ms", ms(facts.handoff.last_layer_computed)}}},
      {"decode",
       {{"node", facts.decode_node.value()},
        {"prompt_rows", facts.decode.prompt_rows},
        {"first_step_rows", facts.decode.first_step_rows},
        {"cache_before", facts.decode.cache_before},
        {"cache_after", facts.decode.cache_after},
        {"recomputed_rows", facts.decode.recomputed_rows}}},
      {"prefill", {{"node", facts.prefill_node.value()}, {"cached_tokens", facts.cached_tokens}}},
      {"attempts", facts.attempts},
      {"token_ids", std::move(ids)},
      {"logits_digests", std::move(digests)}};
}

}  // namespace baton::router

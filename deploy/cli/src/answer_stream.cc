#include "answer_stream.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include "facts.h"

namespace baton::cli {
namespace json = boost::json;

namespace {

Reason reason_of(int status, std::string_view code) {
  Reason by_status = status < 500 ? Reason::invalid_request : Reason::internal;
  for (std::uint32_t number = 0;; ++number) {
    const auto reason = reason_from_number(number);
    if (!reason) return by_status;
    const ReasonInfo& each = info(*reason);
    if (each.http_status == status && each.openai_code == code) return *reason;
  }
}

/// The reason of an error event, which has no status of its own.
Reason reason_of(std::string_view code) {
  for (std::uint32_t number = 0;; ++number) {
    const auto reason = reason_from_number(number);
    if (!reason) return Reason::internal;
    if (info(*reason).openai_code == code) return *reason;
  }
}

}  // namespace

Error error_of(int status, std::string_view body) {
  boost::system::error_code failed;
  const json::value value = json::parse(body, failed);
  const json::object error =
      !failed && value.is_object() ? object_at(value.as_object(), "error") : json::object();
  if (error.empty()) {
    return Error(reason_of(status, ""), fmt::format("the server answered with status {}", status));
  }
  std::string message(text_at(error, "message"));
  const std::string_view param = text_at(error, "param");
  if (!param.empty() && message.find(param) == std::string::npos) {
    message = fmt::format("{}: {}", param, message);
  }
  const std::string_view code = text_at(error, "code");
  return Error(status == 200 ? reason_of(code) : reason_of(status, code), std::move(message));
}

Result<void> AnswerStream::push(std::string_view bytes) {
  BATON_ASSIGN(const std::vector<net::SseEvent> events, reader_.push(bytes));
  for (const net::SseEvent& event : events) BATON_TRY(take(event.data));
  return ok();
}

Result<void> AnswerStream::take(const std::string& data) {
  if (data == "[DONE]") {
    done_ = true;
    return ok();
  }
  boost::system::error_code failed;
  const json::value value = json::parse(data, failed);
  const json::object* chunk = failed ? nullptr : value.if_object();
  if (chunk == nullptr) {
    return Error(Reason::protocol_violation, "the server sent an event that is no JSON object");
  }
  if (chunk->contains("error")) return error_of(200, data);
  const std::vector<json::object> choices = objects_at(*chunk, "choices");
  if (!choices.empty()) take_choice(choices.front());
  if (const std::int64_t count = integer_at(object_at(*chunk, "usage"), "prompt_tokens");
      count > 0) {
    answer_.prompt_tokens = count;
  }
  take_trace(object_at(*chunk, "baton"));
  return ok();
}

void AnswerStream::take_choice(const json::object& choice) {
  std::string_view text = text_at(choice, "text");
  if (text.empty()) text = text_at(object_at(choice, "delta"), "content");
  if (!text.empty()) {
    answer_.text += text;
    on_text_(text);
  }
  const std::string_view finish = text_at(choice, "finish_reason");
  if (!finish.empty()) answer_.finish_reason = finish;
}

void AnswerStream::take_trace(const json::object& trace) {
  for (const auto& [key, value] : trace) {
    if (key == "token_ids" && value.is_array()) {
      for (const json::value& id : value.as_array()) {
        if (id.is_int64()) answer_.token_ids.push_back(static_cast<TokenId>(id.as_int64()));
      }
    } else if (key == "logits_digests" && value.is_array()) {
      for (const json::value& digest : value.as_array()) {
        if (digest.is_string()) answer_.logits_digests.emplace_back(digest.as_string());
      }
    } else {
      answer_.facts[key] = value;
    }
  }
}

Result<Answer> AnswerStream::finish() {
  if (!done_) return Error(Reason::worker_lost, "the answer broke off before its end");
  return std::move(answer_);
}

}  // namespace baton::cli

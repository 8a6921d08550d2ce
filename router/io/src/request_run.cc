#include "request_run.h"

#include "baton/net/sse.h"

namespace baton::router {

using protocol::FinishReason;

RequestRun::RequestRun(RunSpec spec, tokenizer::Tokenizer tokenizer,
                       std::shared_ptr<net::HttpResponder> responder, Probe& probe)
    : spec_(std::move(spec)),
      tokenizer_(tokenizer),
      responder_(std::move(responder)),
      probe_(probe),
      text_(std::move(tokenizer), spec_.request.stop) {}

void RequestRun::refuse(const Error& error, const std::string& param) {
  probe_.request_ended(Outcome::refused);
  probe_.request_failed(error.reason());
  send_error(error, param);
}

bool RequestRun::deliver(const DeliverTokens& event) {
  for (const Delivered& token : event.tokens) {
    tokens_.push_back(token);
    unsent_.push_back(token);
    write_text(text_.push(token.id));
    if (text_.stopped()) return true;
  }
  return false;
}

void RequestRun::write_text(const std::string& text) {
  if (!spec_.request.stream) {
    whole_text_ += text;
    token_written(monotonic_now());
    return;
  }
  const bool first = !started_;
  if (first) {
    started_ = true;
    responder_->start_stream(200, {{"Content-Type", "text/event-stream; charset=utf-8"},
                                   {"Cache-Control", "no-cache"},
                                   {"X-Accel-Buffering", "no"}});
  }
  // A token without text of its own (part of a code point) is sent with the one that completes it;
  // the first chunk goes out in any case, since it is what the client waits for.
  if (text.empty() && !first) return;
  boost::json::value logprobs =
      logprobs_json(spec_.head.kind, unsent_, tokenizer_, sent_characters_);
  unsent_.clear();
  sent_characters_ += characters_of(text);
  if (text_.at_boundary()) whole_tokens_ = static_cast<std::int64_t>(tokens_.size());
  write_event(
      chunk(spec_.head, text, first && spec_.head.kind == ApiKind::chat, std::move(logprobs)),
      [self = shared_from_this()](Instant at) { self->token_written(at); });
}

void RequestRun::write_event(const std::string& data, net::HttpResponder::Written on_written) {
  std::string out;
  net::append_sse(out, {data, spec_.id.to_string() + ".0." + std::to_string(whole_tokens_), ""});
  responder_->write(out, std::move(on_written));
}

void RequestRun::token_written(Instant at) {
  if (!first_at_) {
    first_at_ = at;
    if (spec_.request.stream) probe_.first_token_written(at - spec_.received);
  } else if (spec_.request.stream) {
    probe_.token_written(at - last_at_);
  }
  last_at_ = at;
}

// ---- ends ----

std::optional<boost::json::object> RequestRun::trace(const RequestFacts& facts) const {
  if (!spec_.request.trace) return std::nullopt;
  return trace_json(facts, request_times(facts, monotonic_now() - spec_.received), tokens_);
}

void RequestRun::stopped(const RequestFacts& facts) { finish(FinishReason::stop, facts); }

void RequestRun::ended(const RequestEnded& event) {
  if (event.finish == FinishReason::error) return fail(*event.error);
  finish(event.finish, event.facts);
}

void RequestRun::finish(FinishReason finish, const RequestFacts& facts) {
  const bool by_stop_string = text_.stopped();
  const std::string rest = by_stop_string ? "" : text_.flush();
  if (!rest.empty()) write_text(rest);
  const auto count = static_cast<std::int64_t>(tokens_.size());
  const Usage usage{spec_.prompt_tokens, count, facts.cached_tokens};
  if (spec_.request.stream) {
    finish_stream(finish, facts, usage);
  } else {
    boost::json::value logprobs = logprobs_json(spec_.head.kind, tokens_, tokenizer_, 0);
    responder_->send(
        200, {{"Content-Type", "application/json"}},
        whole_body(spec_.head, whole_text_, finish, std::move(logprobs), usage, trace(facts)),
        when_written(facts));
  }
  probe_.request_ended(finish == FinishReason::stop ? Outcome::stop : Outcome::length);
  probe_.tokens_counted(spec_.prompt_tokens, count);
  const Duration decoding = first_at_ ? last_at_ - *first_at_ : Duration{};
  probe_.tokens_written(decoding, count - 1);
}

/// A client that takes its answer slowly takes that long; one that never takes it has no total.
net::HttpResponder::Written RequestRun::when_written(const RequestFacts& facts) {
  return [self = shared_from_this(), facts](Instant at) {
    self->probe_.answer_written(request_times(facts, at - self->spec_.received));
  };
}

void RequestRun::finish_stream(FinishReason finish, const RequestFacts& facts, Usage usage) {
  whole_tokens_ = usage.completion_tokens;
  boost::json::value logprobs =
      logprobs_json(spec_.head.kind, unsent_, tokenizer_, sent_characters_);
  write_event(finish_chunk(spec_.head, "", finish, std::move(logprobs), trace(facts)));
  if (spec_.head.include_usage) write_event(usage_chunk(spec_.head, usage));
  std::string done;
  net::append_sse_data(done, "[DONE]");
  responder_->write(done);
  responder_->finish(when_written(facts));
}

void RequestRun::fail(const Error& error) {
  probe_.request_ended(Outcome::error);
  probe_.request_failed(error.reason());
  if (!started_) return send_error(error, "");
  std::string out;
  net::append_sse_data(out, error_body(error));
  net::append_sse_data(out, "[DONE]");
  responder_->write(out);
  responder_->finish();
}

void RequestRun::send_error(const Error& error, const std::string& param) {
  const int status = info(error.reason()).http_status;
  net::HttpHeaders headers = {{"Content-Type", "application/json"}};
  if (status == 503 || status == 429) headers.emplace_back("Retry-After", "1");
  responder_->send(status, headers, error_body(error, param));
}

}  // namespace baton::router

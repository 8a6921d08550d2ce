// Reads an answer of the API out of its bytes as they come: a stream of events, or an error's body.
// Sans-io.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

#include "baton/net/sse.h"

#include "prompt.h"

namespace baton::cli {

/// The error in a body of OpenAI's shape; its reason is found by status and code. For a body of
/// another shape the message is the status.
Error error_of(int status, std::string_view body);

class AnswerStream {
 public:
  using OnText = std::function<void(std::string_view)>;

  explicit AnswerStream(OnText on_text) : on_text_(std::move(on_text)) {}

  /// Fails with the error that an event carries, or with protocol_violation for what is no event of
  /// an answer. After a failure nothing more is to be pushed.
  Result<void> push(std::string_view bytes);

  /// "[DONE]" has come; without it the answer is not whole.
  bool done() const { return done_; }
  /// Reason::worker_lost when the stream ended before its end.
  Result<Answer> finish();

 private:
  Result<void> take(const std::string& data);
  void take_choice(const boost::json::object& choice);
  void take_trace(const boost::json::object& trace);

  OnText on_text_;
  net::SseReader reader_;
  Answer answer_;
  bool done_ = false;
};

}  // namespace baton::cli

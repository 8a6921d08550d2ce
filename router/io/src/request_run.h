// One client request from the first delivered token to the last written byte: detokenises, matches
// stop strings, writes the answer, measures what the client sees. On the loop thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "baton/net/io/http_server.h"
#include "baton/router/api/request.h"
#include "baton/router/api/response.h"
#include "baton/router/api/text_stream.h"
#include "baton/router/core/handoff_table.h"

#include "probe.h"

namespace baton::router {

struct RunSpec {
  ApiRequest request;
  AnswerHead head;
  RequestId id;
  std::int64_t prompt_tokens = 0;
  Instant received;
};

class RequestRun : public std::enable_shared_from_this<RequestRun> {
 public:
  RequestRun(RunSpec spec, tokenizer::Tokenizer tokenizer,
             std::shared_ptr<net::HttpResponder> responder, Probe& probe);

  const RequestId& id() const { return spec_.id; }

  /// True when the answer is complete (a stop string was met): the caller drops the request.
  bool deliver(const DeliverTokens& event);
  /// The caller's way to end what deliver() found complete.
  void stopped(const RequestFacts& facts);
  void ended(const RequestEnded& event);
  /// Before anything was submitted, or when the submission was refused.
  void refuse(const Error& error, const std::string& param);

 private:
  void write_text(const std::string& text);
  void write_event(const std::string& data, net::HttpResponder::Written on_written = {});
  void finish(protocol::FinishReason finish, const RequestFacts& facts);
  void finish_stream(protocol::FinishReason finish, const RequestFacts& facts, Usage usage);
  void fail(const Error& error);
  void send_error(const Error& error, const std::string& param);
  std::optional<boost::json::object> trace(const RequestFacts& facts) const;
  void token_written(Instant at);
  net::HttpResponder::Written when_written(const RequestFacts& facts);

  RunSpec spec_;
  tokenizer::Tokenizer tokenizer_;
  std::shared_ptr<net::HttpResponder> responder_;
  Probe& probe_;
  TextStream text_;
  std::vector<Delivered> tokens_;
  std::vector<Delivered> unsent_;  ///< whose log-probabilities go with the next chunk
  std::string whole_text_;         ///< not streamed: the answer; streamed: empty
  std::int64_t sent_characters_ = 0;
  std::int64_t whole_tokens_ = 0;  ///< tokens whose text was sent in full
  bool started_ = false;           ///< the stream's head is out
  std::optional<Instant> first_at_;
  Instant last_at_;
};

}  // namespace baton::router

#include "api.h"

#include <optional>

#include <boost/json.hpp>
#include <fmt/format.h>

namespace baton::cli {
namespace json = boost::json;

namespace {

constexpr Duration admin_time = std::chrono::seconds(5);

Error unreachable(const Endpoint& server, const Error& error) {
  if (error.reason() != Reason::io_error && error.reason() != Reason::deadline_exceeded) {
    return error;
  }
  return Error(Reason::io_error,
               fmt::format("no answer from {}: {}; `baton up` starts a cluster and prints its URL",
                           server.to_string(), error.message()));
}

}  // namespace

Result<Endpoint> parse_url(std::string_view url) {
  constexpr std::string_view scheme = "http://";
  const Error bad(Reason::bad_config,
                  fmt::format("\"{}\" is not a URL of the form http://HOST:PORT", url));
  if (!url.starts_with(scheme)) return bad;
  const std::string_view rest = url.substr(scheme.size());
  Result<Endpoint> endpoint = parse_endpoint(rest.substr(0, rest.find('/')));
  if (!endpoint) return bad;
  return *endpoint;
}

std::string request_body(const Prompt& prompt) {
  json::object body{{"stream", true}, {"stream_options", {{"include_usage", true}}}};
  if (const auto* turns = std::get_if<std::vector<Turn>>(&prompt.content)) {
    json::array messages;
    for (const Turn& turn : *turns) {
      messages.push_back({{"role", turn.role}, {"content", turn.content}});
    }
    body["messages"] = std::move(messages);
  } else if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt.content)) {
    body["prompt"] = json::value_from(*ids);
  } else {
    body["prompt"] = std::get<std::string>(prompt.content);
  }
  const Sampling& sampling = prompt.sampling;
  body["max_tokens"] = sampling.max_tokens;
  body["temperature"] = sampling.temperature;
  body["top_p"] = sampling.top_p;
  if (sampling.top_k > 0) body["top_k"] = sampling.top_k;
  if (sampling.seed) body["seed"] = *sampling.seed;
  if (sampling.ignore_eos) body["ignore_eos"] = true;
  body["baton"] = {{"trace", true}, {"logits_digest", sampling.logits_digest}};
  return json::serialize(body);
}

Result<Answer> ask(const Endpoint& api, const Prompt& prompt, const AnswerStream::OnText& on_text,
                   const std::function<bool()>& keep_going) {
  const bool chat = std::holds_alternative<std::vector<Turn>>(prompt.content);
  net::HttpCall call;
  call.method = "POST";
  call.target = chat ? "/v1/chat/completions" : "/v1/completions";
  call.headers = {{"Content-Type", "application/json"}, {"Accept", "text/event-stream"}};
  call.body = request_body(prompt);
  call.idle_time = std::chrono::minutes(10);  // a long prompt on a slow machine
  call.keep_going = keep_going;
  AnswerStream stream(on_text);
  std::optional<Error> failed;
  std::string error_text;
  int status = 0;
  call.on_head = [&](const net::HttpResponse& head) { status = head.status; };
  call.on_body = [&](std::string_view bytes) {
    if (status != 200) {
      error_text += bytes;
      return true;
    }
    const Result<void> taken = stream.push(bytes);
    if (!taken) failed = taken.error();
    return !failed;
  };
  const Result<net::HttpResponse> response = net::http_call(api, call);
  if (failed) return *failed;
  if (!response) return unreachable(api, response.error());
  if (response->status != 200) return error_of(response->status, error_text);
  return stream.finish();
}

Result<net::HttpResponse> get(const Endpoint& server, const std::string& target) {
  net::HttpCall call;
  call.target = target;
  call.idle_time = admin_time;
  call.total_time = admin_time;
  Result<net::HttpResponse> response = net::http_call(server, call);
  if (!response) return unreachable(server, response.error());
  return response;
}

Result<json::object> get_json(const Endpoint& server, const std::string& target) {
  BATON_ASSIGN(const net::HttpResponse response, get(server, target));
  if (response.status != 200) return error_of(response.status, response.body);
  boost::system::error_code failed;
  json::value value = json::parse(response.body, failed);
  if (failed || !value.is_object()) {
    return Error(Reason::protocol_violation,
                 fmt::format("{}{} is no JSON object", server.to_string(), target));
  }
  return std::move(value.as_object());
}

}  // namespace baton::cli

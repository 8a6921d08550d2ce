// A cluster as its HTTP API shows it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

#include "baton/base/endpoint.h"
#include "baton/net/io/http_client.h"

#include "answer_stream.h"
#include "prompt.h"

namespace baton::cli {

/// "http://host:port", with or without a path, which is ignored. Reason::bad_config otherwise.
Result<Endpoint> parse_url(std::string_view url);

/// The API's body for a prompt: streamed, with trace and usage.
std::string request_body(const Prompt& prompt);

/// Asks and reads the answer as it comes. `keep_going`: see net::HttpCall. Errors: those of
/// http_call(), the server's own, and AnswerStream's.
Result<Answer> ask(const Endpoint& api, const Prompt& prompt, const AnswerStream::OnText& on_text,
                   const std::function<bool()>& keep_going = {});

/// GET of a path, any status. Short time limits: for admin listeners.
Result<net::HttpResponse> get(const Endpoint& server, const std::string& target);

/// The same when it must be a 200 with a JSON object in it.
Result<boost::json::object> get_json(const Endpoint& server, const std::string& target);

}  // namespace baton::cli

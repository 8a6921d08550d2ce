#include "http_parser.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <boost/beast/http/basic_parser.hpp>
#include <fmt/format.h>

#include "http_head.h"

namespace baton::net {

namespace http = boost::beast::http;
namespace asio = boost::asio;
using boost::system::error_code;

namespace {

using View = boost::beast::string_view;

std::string_view std_view(View view) { return {view.data(), view.size()}; }

/// A client may send thousands of kilobytes of white space between name and value; Beast has
/// trimmed it when it tells us, the limit on the whole header counts it.
std::size_t line_bytes(View name, View value) { return name.size() + value.size() + 4; }

}  // namespace

class RequestParser::Sink : public http::basic_parser<true> {
 public:
  explicit Sink(const HttpLimits& limits) : limits_(limits) {
    header_limit(static_cast<std::uint32_t>(limits.header_bytes));
    body_limit(limits.body_bytes);
  }

  HttpRequest request;
  std::optional<Error> failure;
  bool expects_continue = false;
  bool is_http_1_0 = false;

 private:
  void fail(Reason reason, std::string message, error_code& ec) {
    failure.emplace(reason, std::move(message));
    ec = http::error::bad_value;
  }

  void on_request_impl(http::verb, View method, View target, int version, error_code& ec) override {
    is_http_1_0 = version == 10;
    request.method = std_view(method);
    if (method.size() + target.size() + std::string_view("  HTTP/1.1\r\n").size() >
        limits_.header_line_bytes) {
      return fail(Reason::header_too_large, "the request line is too long", ec);
    }
    set_target(std_view(target), ec);
  }

  void set_target(std::string_view target, error_code& ec) {
    if (target.starts_with("http://") || target.starts_with("https://")) {
      const std::size_t slash = target.find('/', target.find("//") + 2);
      target = slash == std::string_view::npos ? "/" : target.substr(slash);
    }
    if (target != "*" && !target.starts_with('/')) {
      return fail(Reason::invalid_request, "the request target is no path", ec);
    }
    const std::size_t mark = target.find('?');
    request.path = target.substr(0, mark);
    if (mark != std::string_view::npos) request.query = target.substr(mark + 1);
  }

  void on_field_impl(http::field field, View name, View value, error_code& ec) override {
    if (++fields_ > limits_.header_fields) {
      return fail(Reason::header_too_large,
                  fmt::format("more than {} header fields", limits_.header_fields), ec);
    }
    if (line_bytes(name, value) > limits_.header_line_bytes) {
      return fail(Reason::header_too_large, "a header line is too long", ec);
    }
    // Trailers are counted and checked like every field, and dropped.
    if (is_header_done()) return;
    request.headers.emplace_back(std_view(name), std_view(value));
    if (field == http::field::host) ++hosts_;
    if (field == http::field::transfer_encoding) check_transfer_encoding(std_view(value), ec);
    if (field == http::field::expect) {
      if (!same_header_name(std_view(value), "100-continue")) {
        return fail(Reason::invalid_request, "the Expect header knows 100-continue alone", ec);
      }
      expects_continue = true;
    }
  }

  /// Two readings of where a body ends are how requests are smuggled: chunked alone, once, in 1.1.
  void check_transfer_encoding(std::string_view value, error_code& ec) {
    if (is_http_1_0 || ++encodings_ > 1 || !same_header_name(value, "chunked")) {
      fail(Reason::invalid_request, "the only transfer encoding is chunked", ec);
    }
  }

  void on_header_impl(error_code& ec) override {
    if (hosts_ > 1 || (hosts_ == 0 && !is_http_1_0)) {
      fail(Reason::invalid_request, "exactly one Host header is needed", ec);
    }
  }

  std::size_t on_body_impl(View body, error_code&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }

  std::size_t on_chunk_body_impl(std::uint64_t, View body, error_code&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }

  void on_response_impl(int, View, int, error_code&) override {}
  void on_body_init_impl(boost::optional<std::uint64_t> const&, error_code&) override {}
  void on_chunk_header_impl(std::uint64_t, View, error_code&) override {}
  void on_finish_impl(error_code&) override {}

  const HttpLimits& limits_;
  std::size_t fields_ = 0;
  int hosts_ = 0;
  int encodings_ = 0;
};

RequestParser::RequestParser(const HttpLimits& limits)
    : limits_(limits), sink_(std::make_unique<Sink>(limits)) {}

RequestParser::~RequestParser() = default;

Result<std::size_t> RequestParser::feed(std::string_view bytes) {
  if (bytes.empty() || sink_->is_done()) return std::size_t{0};
  const bool in_header = !sink_->is_header_done();
  sink_->eager(!in_header);
  error_code ec;
  const std::size_t used = sink_->put(asio::const_buffer(bytes.data(), bytes.size()), ec);
  if (sink_->failure) return *sink_->failure;
  if (in_header) header_bytes_ += used;
  // What is not used belongs to an unfinished header, or to a chunk's head or the trailers.
  const bool starved = ec == http::error::need_more;
  const std::size_t open_bytes = starved ? bytes.size() - used : 0;
  if (ec == http::error::header_limit || open_bytes > limits_.header_bytes ||
      (in_header && header_bytes_ + open_bytes > limits_.header_bytes)) {
    return Error(Reason::header_too_large,
                 fmt::format("the header is longer than {} bytes", limits_.header_bytes));
  }
  if (ec == http::error::body_limit) {
    return Error(Reason::body_too_large,
                 fmt::format("the body is longer than {} bytes", limits_.body_bytes));
  }
  if (ec && !starved) {
    return Error(Reason::invalid_request, fmt::format("malformed HTTP: {}", ec.message()));
  }
  return used;
}

bool RequestParser::header_done() const { return sink_->is_header_done(); }
bool RequestParser::done() const { return sink_->is_done(); }
std::size_t RequestParser::body_bytes() const { return sink_->request.body.size(); }
bool RequestParser::expects_continue() const { return sink_->expects_continue; }
bool RequestParser::keep_alive() const { return !sink_->is_http_1_0 && sink_->keep_alive(); }
bool RequestParser::is_http_1_0() const { return sink_->is_http_1_0; }

HttpRequest RequestParser::take() {
  HttpRequest request = std::move(sink_->request);
  sink_ = std::make_unique<Sink>(limits_);
  header_bytes_ = 0;
  return request;
}

class ResponseParser::Sink : public http::basic_parser<false> {
 public:
  explicit Sink(Events& events) : events_(events) {
    header_limit(64 * 1024);
    body_limit(boost::none);
    eager(true);
  }

  bool intermediate() const { return response_.status / 100 == 1; }

 private:
  void on_response_impl(int status, View, int, error_code&) override { response_.status = status; }

  void on_field_impl(http::field, View name, View value, error_code&) override {
    if (!is_header_done()) response_.headers.emplace_back(std_view(name), std_view(value));
  }

  void on_header_impl(error_code&) override {
    if (!intermediate()) events_.on_head(response_);
  }

  std::size_t on_body_impl(View body, error_code&) override {
    events_.on_body(std_view(body));
    return body.size();
  }

  std::size_t on_chunk_body_impl(std::uint64_t, View body, error_code&) override {
    events_.on_body(std_view(body));
    return body.size();
  }

  void on_request_impl(http::verb, View, View, int, error_code&) override {}
  void on_body_init_impl(boost::optional<std::uint64_t> const&, error_code&) override {}
  void on_chunk_header_impl(std::uint64_t, View, error_code&) override {}
  void on_finish_impl(error_code&) override {}

  Events& events_;
  HttpResponse response_;
};

ResponseParser::ResponseParser(bool to_head_request, Events events)
    : to_head_request_(to_head_request), events_(std::move(events)) {
  restart();
}

ResponseParser::~ResponseParser() = default;

void ResponseParser::restart() {
  sink_ = std::make_unique<Sink>(events_);
  sink_->skip(to_head_request_);
}

Result<std::size_t> ResponseParser::feed(std::string_view bytes) {
  std::size_t used = 0;
  while (used < bytes.size() && !sink_->is_done()) {
    error_code ec;
    used += sink_->put(asio::const_buffer(bytes.data() + used, bytes.size() - used), ec);
    if (ec == http::error::need_more) break;
    if (ec) {
      return Error(Reason::protocol_violation, fmt::format("malformed HTTP: {}", ec.message()));
    }
    if (sink_->is_done() && sink_->intermediate()) restart();
  }
  return used;
}

bool ResponseParser::ends_here() {
  if (sink_->is_done()) return true;
  if (!sink_->is_header_done()) return false;
  error_code ec;
  sink_->put_eof(ec);
  return !ec;
}

bool ResponseParser::done() const { return sink_->is_done(); }

}  // namespace baton::net

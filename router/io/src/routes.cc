// The HTTP routes of a router: the OpenAI-style API and the admin listener.
#include <algorithm>
#include <atomic>
#include <ctime>

#include <boost/json.hpp>

#include "baton/base/log.h"
#include "baton/protocol/codec.h"

#include "process.h"

namespace baton::router {
namespace json = boost::json;

namespace {

// Parsing and tokenising a body of this size takes about a millisecond.
constexpr std::size_t pool_body_bytes = 16 * 1024;
constexpr std::size_t bulk_body_bytes = 256 * 1024;

const net::HttpHeaders json_headers = {{"Content-Type", "application/json"}};

}  // namespace

void RouterProcess::send_error(const Responder& responder, const Error& error,
                               const std::string& param) {
  probe_.request_failed(error.reason());
  const int status = info(error.reason()).http_status;
  net::HttpHeaders headers = json_headers;
  if (status == 503 || status == 429) headers.emplace_back("Retry-After", "1");
  responder->send(status, headers, error_body(error, param));
}

process::AdminRoutes RouterProcess::admin_routes() {
  process::AdminRoutes routes;
  routes.registry = &registry_;
  routes.alive = [] { return process::Health{true, "alive"}; };
  routes.ready = [this] { return readiness(); };
  routes.started = [this] {
    const bool started = text_ != nullptr;
    return process::Health{started, started ? "started" : "starting"};
  };
  routes.json = [this](std::string_view path) -> std::optional<std::string> {
    if (path != "/workers") return std::nullopt;
    return workers_json();
  };
  return routes;
}

std::string RouterProcess::workers_json() const {
  json::array list;
  for (const auto& [node, worker] : table_.workers().all()) {
    list.push_back({{"node", node.value()},
                    {"role", worker.role == protocol::Role::prefill ? "prefill" : "decode"},
                    {"up", worker.up},
                    {"draining", worker.draining},
                    {"model", worker.info.model},
                    {"numerics_class", worker.info.numerics_class},
                    {"kernel_set", worker.info.kernel_set},
                    {"cache_dtype", worker.info.cache_dtype},
                    {"context_length", worker.info.context_length},
                    {"cache_tokens", worker.info.cache_tokens},
                    {"free_tokens", worker.load.free_tokens},
                    {"queued", worker.load.queued},
                    {"running", worker.load.running},
                    {"fingerprint", worker.fingerprint.to_string()},
                    {"control", worker.info.control_address},
                    {"admin", worker.info.admin_url},
                    {"transports", json::value_from(worker.info.transports)}});
  }
  return json::serialize(json::object{{"workers", std::move(list)}});
}

void RouterProcess::api(net::HttpRequest request, const Responder& responder) {
  const std::string& path = request.path;
  const bool get = request.method == "GET" || request.method == "HEAD";
  const bool post = request.method == "POST";
  if (path == "/health") return process::send_health(*responder, readiness());
  if (path == "/v1/models" && get) return models(responder);
  if (path == "/v1/chat/completions" && post) {
    return generate(ApiKind::chat, std::move(request), responder);
  }
  if (path == "/v1/completions" && post) {
    return generate(ApiKind::completion, std::move(request), responder);
  }
  if (path == "/tokenize" && post) return convert(std::move(request), responder, &tokenize);
  if (path == "/detokenize" && post) return convert(std::move(request), responder, &detokenize);
  const bool known = path == "/v1/models" || path == "/v1/chat/completions" ||
                     path == "/v1/completions" || path == "/tokenize" || path == "/detokenize";
  if (known) {
    return send_error(responder, Error(Reason::method_not_allowed, "method not allowed here"));
  }
  send_error(responder, Error(Reason::not_found, "no such route"));
}

std::string RouterProcess::model_name() const {
  if (!config_.model_name.empty()) return config_.model_name;
  return worker_model_.empty() ? "baton" : worker_model_;
}

std::int64_t RouterProcess::context_length() const {
  // What a message between nodes may carry bounds it as well.
  std::int64_t shortest = 0;
  for (const auto& [node, worker] : table_.workers().all()) {
    if (shortest == 0 || worker.info.context_length < shortest) {
      shortest = worker.info.context_length;
    }
  }
  return std::min<std::int64_t>(shortest, protocol::max_ids);
}

Result<void> RouterProcess::check_model(const std::optional<std::string>& name) const {
  if (!name || *name == model_name()) return ok();
  constexpr std::size_t shown = 128;
  return Error(Reason::model_not_found, "the model `" + clipped(*name, shown) +
                                            "` does not exist; this router serves `" +
                                            model_name() + "`");
}

void RouterProcess::models(const Responder& responder) {
  const json::object model{{"id", model_name()},
                           {"object", "model"},
                           {"created", 0},
                           {"owned_by", "baton"},
                           {"max_model_len", context_length()}};
  responder->send(200, json_headers,
                  json::serialize(json::object{{"object", "list"}, {"data", {model}}}));
}

// ---- generation ----

namespace {

/// What is wrong with the first token id that the vocabulary lacks.
std::optional<ApiError> check_ids(const ApiRequest& request, const std::vector<TokenId>& prompt,
                                  std::size_t vocabulary) {
  const auto check = [&](const char* parameter, TokenId id) -> std::optional<ApiError> {
    if (static_cast<std::size_t>(id) < vocabulary) return std::nullopt;
    return ApiError{
        Error(Reason::invalid_request, std::string(parameter) + ": token id " + std::to_string(id) +
                                           " is not in the vocabulary"),
        parameter};
  };
  for (const TokenId id : prompt) {
    if (auto error = check("prompt", id)) return error;
  }
  for (const TokenId id : request.sampling.stop_ids) {
    if (auto error = check("stop_token_ids", id)) return error;
  }
  for (const auto& [id, bias] : request.sampling.logit_bias) {
    if (auto error = check("logit_bias", id)) return error;
  }
  return std::nullopt;
}

}  // namespace

RouterProcess::PreparedResult RouterProcess::prepare(const tokenizer::ModelText& text, ApiKind kind,
                                                     const std::string& body) {
  auto request = parse_request(kind, body);
  if (!request) return request.error();
  Prepared prepared{std::move(*request), {}};
  if (kind == ApiKind::chat) {
    Result<std::vector<TokenId>> ids = text.chat_ids(prepared.request.chat);
    if (!ids) return ApiError{ids.error(), "messages"};
    prepared.ids = std::move(*ids);
  } else if (const auto* words = std::get_if<std::string>(&prepared.request.prompt)) {
    Result<std::vector<TokenId>> ids = text.text_ids(*words, true);
    if (!ids) return ApiError{ids.error(), "prompt"};
    prepared.ids = std::move(*ids);
  } else {
    prepared.ids = std::get<std::vector<TokenId>>(prepared.request.prompt);
  }
  if (auto error = check_ids(prepared.request, prepared.ids, text.tokenizer().vocabulary_size())) {
    return *std::move(error);
  }
  if (prepared.ids.empty()) {
    return ApiError{Error(Reason::invalid_request, "the prompt is empty"), "prompt"};
  }
  return prepared;
}

void RouterProcess::generate(ApiKind kind, net::HttpRequest request, const Responder& responder) {
  if (drain_.has_lasted(config_.drain_delay, monotonic_now())) {
    return send_error(responder, Error(Reason::draining, "the router is shutting down"));
  }
  if (text_ == nullptr) {
    return send_error(responder, Error(Reason::no_worker, "no worker is connected yet"));
  }
  if (request.body.size() <= pool_body_bytes) {
    return prepared(prepare(*text_, kind, request.body), responder, request.received_at);
  }
  const std::size_t bytes = request.body.size();
  const bool taken = offload(
      bytes, responder, [this, text = text_, kind, responder, request = std::move(request)] {
        auto result = std::make_shared<PreparedResult>(prepare(*text, kind, request.body));
        loop_.post([this, result, responder, at = request.received_at] {
          prepared(std::move(*result), responder, at);
        });
      });
  if (!taken) send_error(responder, Error(Reason::overloaded, "too many long prompts at a time"));
}

bool RouterProcess::offload(std::size_t body_bytes, const Responder& responder,
                            std::function<void()> job) {
  // A client that gives up while this waits costs nothing more.
  auto gone = std::make_shared<std::atomic<bool>>(false);
  responder->on_disconnect([gone] { *gone = true; });
  WorkPool& pool = body_bytes > bulk_body_bytes ? *bulk_pool_ : *pool_;
  return pool.post([this, gone, job = std::move(job)] {
    if (!*gone) return job();
    loop_.post([this] { probe_.request_ended(Outcome::cancelled); });
  });
}

void RouterProcess::prepared(PreparedResult result, const Responder& responder, Instant received) {
  if (!responder->open()) return probe_.request_ended(Outcome::cancelled);
  if (!result) {
    probe_.request_ended(Outcome::refused);
    return send_error(responder, result.error().error, result.error().param);
  }
  if (const Result<void> model = check_model(result->request.model); !model) {
    probe_.request_ended(Outcome::refused);
    return send_error(responder, model.error(), "model");
  }
  if (const Result<void> fits = limit_tokens(*result); !fits) {
    probe_.request_ended(Outcome::refused);
    return send_error(responder, fits.error(),
                      result->request.kind == ApiKind::chat ? "messages" : "prompt");
  }
  submit(std::move(*result), responder, received);
}

Result<void> RouterProcess::limit_tokens(Prepared& prepared) const {
  const std::int64_t context = context_length();
  const auto prompt = static_cast<std::int64_t>(prepared.ids.size());
  const std::int64_t wanted = prepared.request.max_tokens.value_or(context - prompt);
  if (prompt >= context || prompt + wanted > context) {
    return Error(Reason::context_length_exceeded,
                 "This model's maximum context length is " + std::to_string(context) +
                     " tokens. However, you requested " +
                     std::to_string(prompt + std::max<std::int64_t>(1, wanted)) + " tokens (" +
                     std::to_string(prompt) + " in the prompt, " +
                     std::to_string(std::max<std::int64_t>(1, wanted)) +
                     " in the completion). Shorten the prompt or lower max_tokens.");
  }
  prepared.request.sampling.max_tokens = static_cast<std::int32_t>(wanted);
  return ok();
}

void RouterProcess::submit(Prepared prepared, const Responder& responder, Instant received) {
  const RequestId id = random_request_id();
  protocol::Sampling& sampling = prepared.request.sampling;
  sampling.seed = prepared.request.seed.value_or(random_seed());
  RunSpec spec;
  spec.id = id;
  spec.received = received;
  spec.prompt_tokens = static_cast<std::int64_t>(prepared.ids.size());
  spec.head.kind = prepared.request.kind;
  spec.head.id = (prepared.request.kind == ApiKind::chat ? "chatcmpl-" : "cmpl-") + id.to_string();
  spec.head.model = model_name();
  spec.head.created_s = std::time(nullptr);
  spec.head.fingerprint = fingerprint_word();
  spec.head.include_usage = prepared.request.include_usage;
  Submission submission;
  submission.id = id;
  submission.work.prompt_ids = std::move(prepared.ids);
  submission.work.sampling = sampling;
  submission.end_ids = sampling.stop_ids;
  if (!sampling.ignore_eos) {
    const auto ends = text_->tokenizer().end_of_generation();
    submission.end_ids.insert(submission.end_ids.end(), ends.begin(), ends.end());
  }
  const Instant now = monotonic_now();
  submission.received = received;
  submission.deadline = now + config_.request_deadline;
  spec.request = std::move(prepared.request);
  auto run = std::make_shared<RequestRun>(std::move(spec), text_->tokenizer(), responder, probe_);
  if (const Result<void> taken = table_.submit(std::move(submission), now); !taken) {
    return run->refuse(taken.error(), "");
  }
  runs_[id] = std::move(run);
  responder->on_disconnect([this, id] { client_gone(id); });
  run_effects();
}

std::string RouterProcess::fingerprint_word() const {
  for (const auto& [node, worker] : table_.workers().all()) {
    constexpr std::size_t digits = 16;
    return "fp_" + worker.fingerprint.to_string().substr(0, digits);
  }
  return "";
}

// ---- text ----

RouterProcess::ConvertedResult RouterProcess::tokenize(const tokenizer::ModelText& text,
                                                       const std::string& body) {
  auto parsed = parse_tokenize(body);
  if (!parsed) return parsed.error();
  const Result<std::vector<TokenId>> ids =
      parsed->prompt ? text.text_ids(*parsed->prompt, parsed->add_special_tokens)
                     : text.chat_ids(parsed->chat);
  if (!ids) return ApiError{ids.error(), ""};
  return Converted{std::move(parsed->model),
                   {{"count", ids->size()}, {"tokens", json::value_from(*ids)}}};
}

RouterProcess::ConvertedResult RouterProcess::detokenize(const tokenizer::ModelText& text,
                                                         const std::string& body) {
  auto parsed = parse_detokenize(body);
  if (!parsed) return parsed.error();
  tokenizer::DecodeOptions options;
  options.skip_special = false;
  return Converted{std::move(parsed->model),
                   {{"prompt", text.tokenizer().decode(parsed->tokens, options)}}};
}

void RouterProcess::convert(net::HttpRequest request, const Responder& responder,
                            Conversion conversion) {
  if (text_ == nullptr) {
    return send_error(responder, Error(Reason::no_worker, "no worker is connected yet"));
  }
  if (request.body.size() <= pool_body_bytes) {
    return converted(conversion(*text_, request.body), responder);
  }
  const std::size_t bytes = request.body.size();
  const bool taken =
      offload(bytes, responder,
              [this, text = text_, responder, conversion, body = std::move(request.body)] {
                auto result = std::make_shared<ConvertedResult>(conversion(*text, body));
                loop_.post([this, result, responder] { converted(std::move(*result), responder); });
              });
  if (!taken) send_error(responder, Error(Reason::overloaded, "too many long texts at a time"));
}

void RouterProcess::converted(ConvertedResult result, const Responder& responder) {
  if (!result) return send_error(responder, result.error().error, result.error().param);
  if (const Result<void> model = check_model(result->model); !model) {
    return send_error(responder, model.error(), "model");
  }
  if (result->body.contains("tokens")) result->body["max_model_len"] = context_length();
  responder->send(200, json_headers, json::serialize(result->body));
}

}  // namespace baton::router

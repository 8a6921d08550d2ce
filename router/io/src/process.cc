#include "process.h"

#include <unistd.h>

#include "baton/base/log.h"
#include "baton/router/io/run.h"

namespace baton::router {
namespace {

constexpr Duration tick_time = std::chrono::milliseconds(20);

/// After the drain's grace, for the answers that it ended; a client that does not read holds no
/// router longer.
constexpr Duration last_answers_time = std::chrono::milliseconds(500);

TableLimits table_limits(const RouterConfig& config) {
  TableLimits limits = config.table;
  limits.requests = static_cast<std::size_t>(config.max_requests);
  limits.queue = static_cast<std::size_t>(config.max_queue);
  return limits;
}

}  // namespace

RouterProcess::RouterProcess(const RouterConfig& config, std::string prefix_secret)
    : config_(config),
      node_(config.node.empty() ? "router-" + std::to_string(getpid()) : config.node),
      epoch_(random_epoch()),
      registry_("router", node_.value()),
      probe_(registry_),
      table_(table_limits(config), random_seed(), std::move(prefix_secret)),
      drain_(loop_, [] {}) {}

int RouterProcess::run() {
  if (const Result<void> listening = listen(); !listening) {
    log_error("{}", listening.error().message());
    return exit_config;
  }
  pool_ = std::make_unique<WorkPool>(256);
  bulk_pool_ = std::make_unique<WorkPool>(16);
  links_ = std::make_unique<WorkerLinks>(
      loop_, WorkerLinksConfig{node_, epoch_, config_.prefill, config_.decode, config_.table.lease},
      *this);
  ticker_ = loop_.schedule_every(tick_time, [this] { tick(); });
  loop_.run();
  ticker_.cancel();
  pool_.reset();
  bulk_pool_.reset();
  runs_.clear();
  api_.reset();
  admin_.reset();
  links_.reset();
  return 0;
}

Result<void> RouterProcess::listen() {
  net::HttpServer::Options options;
  options.endpoint = config_.listen;
  options.limits.connections = static_cast<std::size_t>(config_.max_connections);
  options.limits.connections_per_address =
      static_cast<std::size_t>(config_.max_connections_per_address);
  options.handler = [this](net::HttpRequest request, Responder responder) {
    api(std::move(request), responder);
  };
  options.error_body = [](const Error& error) { return error_body(error); };
  BATON_ASSIGN(api_, net::HttpServer::listen(loop_, options));
  options.endpoint = config_.admin_listen;
  BATON_ASSIGN(admin_, process::listen_admin(loop_, std::move(options), admin_routes()));
  return process::announce(config_, "router", node_.value(),
                           {{"api", api_->endpoint()}, {"admin", admin_->endpoint()}});
}

// ---- workers ----

void RouterProcess::worker_up(Worker worker) {
  if (!worker.info.model.empty()) worker_model_ = worker.info.model;
  table_.worker_up(std::move(worker), monotonic_now());
  run_effects();
}

void RouterProcess::worker_down(const WorkerRef& worker) {
  table_.worker_down(worker, monotonic_now());
  run_effects();
}

void RouterProcess::message(const WorkerRef& from, protocol::Message message) {
  table_.message(from, std::move(message), monotonic_now());
  run_effects();
}

void RouterProcess::bundle(std::string bytes) {
  Result<tokenizer::ModelText> text = tokenizer::ModelText::make(bytes);
  if (!text) return log_error("the tokenizer bundle cannot be used: {}", text.error().message());
  text_ = std::make_shared<const tokenizer::ModelText>(std::move(*text));
}

// ---- effects ----

void RouterProcess::run_effects() {
  if (running_effects_) return;  // the outer call goes on until there are none
  running_effects_ = true;
  for (auto effects = table_.take_effects(); !effects.empty(); effects = table_.take_effects()) {
    for (TableEffect& effect : effects) {
      std::visit([this](auto& each) { execute(each); }, effect);
    }
  }
  running_effects_ = false;
}

void RouterProcess::execute(SendTo& effect) { links_->send(effect.worker, effect.message); }

void RouterProcess::execute(DeliverTokens& effect) {
  const auto run = runs_.find(effect.request);
  if (run == runs_.end() || !run->second->deliver(effect)) return;
  const RequestFacts* facts = table_.facts(effect.request);
  run->second->stopped(facts != nullptr ? *facts : RequestFacts());
  runs_.erase(run);
  table_.drop(effect.request, monotonic_now());
}

void RouterProcess::execute(RequestEnded& effect) {
  const auto run = runs_.find(effect.request);
  if (run == runs_.end()) return;
  run->second->ended(effect);
  runs_.erase(run);
}

void RouterProcess::client_gone(RequestId id) {
  if (runs_.erase(id) == 0) return;
  probe_.request_ended(Outcome::cancelled);
  table_.drop(id, monotonic_now());
  run_effects();
}

// ---- time ----

void RouterProcess::tick() {
  const Instant now = monotonic_now();
  links_->tick(now);
  table_.tick(now);
  run_effects();
  probe_.table_changed(table_);
  if (drain_.has_lasted(config_.drain_delay, now)) drain_further(now);
}

/// A request whose end is known may still have bytes on their way to the client, or, on the way in,
/// be with a pool: its connection tells.
void RouterProcess::drain_further(Instant now) {
  const Duration grace = config_.drain_delay + config_.drain_grace;
  const bool over = drain_.has_lasted(grace, now);
  if (over) {
    table_.end_all(Reason::draining, "the router is shutting down", now);
    run_effects();
  }
  if (drain_.has_lasted(grace + last_answers_time, now)) return loop_.stop();
  if (!runs_.empty() || (!over && table_.debts() > 0)) return;
  api_->drain();
  if (api_->stats().open_connections == 0) loop_.stop();
}

process::Health RouterProcess::readiness() const {
  if (drain_.since()) return {false, "draining"};
  if (text_ == nullptr) return {false, "no worker has sent the tokenizer yet"};
  bool prompts = false;  // somebody computes them
  bool decode = false;
  for (const auto& [node, worker] : table_.workers().all()) {
    if (!worker.up || worker.draining) continue;
    // One that computes prompts serves short ones, or all, without any prefill node.
    const bool computes = worker.info.prefill_suffix_tokens > 0;
    prompts = prompts || worker.role == protocol::Role::prefill || computes;
    decode = decode || worker.role == protocol::Role::decode;
  }
  if (!prompts) return {false, "no prefill node is available"};
  if (!decode) return {false, "no decode node is available"};
  return {true, "ready"};
}

namespace {

int serve(const RouterConfig& config) {
  Result<std::string> secret = prefix_secret(config);
  if (!secret) {
    log_error("{}", secret.error().message());
    return exit_config;
  }
  return RouterProcess(config, std::move(*secret)).run();
}

}  // namespace

int router_main(int argc, const char* const* argv) {
  RouterConfig config;
  return process::run_program(
      "router", argc, argv, config, [&config](ConfigTable& table) { add_options(table, config); },
      [&config] { return serve(config); });
}

}  // namespace baton::router

#include "process.h"

#include <cstdio>
#include <fstream>

#include <boost/json.hpp>
#include <unistd.h>

#include "baton/base/log.h"
#include "baton/router/io/run.h"

namespace baton::router {
namespace json = boost::json;

namespace {

constexpr int exit_config = 78;  // EX_CONFIG
constexpr Duration tick_time = std::chrono::milliseconds(20);

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
      signals_(loop_.context(), SIGINT, SIGTERM) {}

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
  signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (!error) drain();
  });
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
  options.handler = [this](net::HttpRequest request, Responder responder) {
    admin(request, responder);
  };
  BATON_ASSIGN(admin_, net::HttpServer::listen(loop_, std::move(options)));
  return announce();
}

Result<void> RouterProcess::announce() const {
  log_info("router {}: API {}, admin {}", node_.value(), api_->endpoint().to_string(),
           admin_->endpoint().to_string());
  if (config_.announce.empty()) return ok();
  const std::string part = config_.announce + ".part";
  std::ofstream file(part);
  file << json::object{{"role", "router"},
                       {"node", node_.value()},
                       {"pid", getpid()},
                       {"api", api_->endpoint().to_string()},
                       {"admin", admin_->endpoint().to_string()}}
       << "\n";
  file.close();
  if (!file || std::rename(part.c_str(), config_.announce.c_str()) != 0) {
    return Error(Reason::bad_config, "announce: cannot write " + config_.announce);
  }
  return ok();
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
  if (!draining_since_) return;
  const Duration draining = now - *draining_since_;
  if ((draining >= config_.drain_delay && runs_.empty() && table_.debts() == 0) ||
      draining >= config_.drain_delay + config_.drain_grace) {
    loop_.stop();
  }
}

void RouterProcess::drain() {
  log_info("draining");
  draining_since_ = monotonic_now();
  signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (!error) loop_.stop();
  });
}

std::pair<int, std::string> RouterProcess::readiness() const {
  if (draining_since_) return {503, "draining"};
  if (text_ == nullptr) return {503, "no worker has sent the tokenizer yet"};
  bool prefill = false;
  bool decode = false;
  for (const auto& [node, worker] : table_.workers().all()) {
    if (!worker.up || worker.draining) continue;
    (worker.role == protocol::Role::prefill ? prefill : decode) = true;
  }
  if (!prefill) return {503, "no prefill node is available"};
  if (!decode) return {503, "no decode node is available"};
  return {200, "ready"};
}

int router_main(int argc, const char* const* argv) {
  RouterConfig config;
  ConfigTable table("baton-router", "router", {"prefill", "decode"});
  add_options(table, config);
  const Result<ConfigAction> action = table.load(argc, argv);
  if (!action) {
    std::fprintf(stderr, "baton-router: %s\n", action.error().message().c_str());
    return exit_config;
  }
  switch (*action) {
    case ConfigAction::print_help:
      std::fputs(table.help().c_str(), stdout);
      return 0;
    case ConfigAction::print_config:
      std::fputs(table.effective().c_str(), stdout);
      return 0;
    case ConfigAction::print_version:
      std::puts(BATON_VERSION);
      return 0;
    case ConfigAction::run:
      break;
  }
  configure_logging("router", config.log_level);
  Result<std::string> secret = prefix_secret(config);
  if (!secret) {
    log_error("{}", secret.error().message());
    return exit_config;
  }
  return RouterProcess(config, std::move(*secret)).run();
}

}  // namespace baton::router

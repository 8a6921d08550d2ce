#include "baton/worker/run.h"

#include <filesystem>
#include <thread>

#include <boost/json.hpp>
#include <unistd.h>

#include "baton/base/log.h"
#include "baton/metrics/memory.h"
#include "baton/process/admin.h"
#include "baton/process/drain.h"
#include "baton/transport/factory/factory.h"
#include "baton/worker/processors.h"

#include "control.h"

namespace baton::worker {
namespace {

// A layer takes at most 100 ms by plan; a loop without progress for this long hangs.
constexpr Duration hung_after = std::chrono::seconds(30);
// Of the step budget: now and then a step takes half as long again as was predicted.
constexpr int planned_percent = 66;

std::string default_node(protocol::Role role) {
  char host[64] = {};
  gethostname(host, sizeof(host) - 1);
  return std::string(role == protocol::Role::prefill ? "prefill-" : "decode-") + host + "-" +
         std::to_string(getpid());
}

const char* role_name(protocol::Role role) {
  return role == protocol::Role::prefill ? "prefill" : "decode";
}

std::string error_json(const Error& error) {
  return boost::json::serialize(boost::json::object{
      {"error", {{"message", error.message()}, {"type", info(error.reason()).label}}}});
}

}  // namespace

/// One worker process: owns everything, on the control thread (the one that calls run()).
class WorkerProcess final : public handoff::DriverListener {
 public:
  WorkerProcess(protocol::Role role, const WorkerConfig& config, const CoreFactory& make_core)
      : config_(config),
        make_core_(make_core),
        identity_{role, NodeId(config.node.empty() ? default_node(role) : config.node),
                  random_epoch(), host_identity()},
        registry_(role_name(role), identity_.node.value()),
        probe_(registry_, role),
        control_(loop_, identity_, probe_),
        drain_(loop_, [this] { drain(); }) {}

  ~WorkerProcess() override {
    if (loader_.joinable()) loader_.join();
  }

  int run();

  // DriverListener, on the transport thread.
  void source_accepted(const handoff::SourceAccepted& event) override { to_engine(event); }
  void source_failed(const handoff::SourceFailed& event) override { to_engine(event); }
  void source_idle(handoff::SourceId source) override { to_engine(handoff::SourceIdle{source}); }
  void commit_verified(const handoff::CommitVerified& event) override { to_engine(event); }
  void grant_closed(std::uint64_t grant) override { to_engine(handoff::GrantClosed{grant}); }
  void held_units_differ(std::uint64_t grant) override {
    to_engine(handoff::HeldUnitsDiffer{grant});
  }
  void send_to_pair(handoff::LinkId link, protocol::Message message) override {
    loop_.post(
        [this, link, message = std::move(message)] { control_.send_to_pair(link, message); });
  }
  void link_expected(handoff::LinkId link) override {
    loop_.post([this, link] { control_.link_expected(link); });
  }
  void link_lost(handoff::LinkId link, const Error& error) override {
    loop_.post([this, link, error] { control_.link_lost(link, error); });
  }
  void units_refused(Reason reason) override { probe_.units_refused(reason); }
  void commit_refused(Reason reason) override { probe_.commit_refused(reason); }
  void bytes_moved(std::uint64_t sent, std::uint64_t received) override {
    probe_.bytes_moved(sent, received);
  }

 private:
  void to_engine(DriverEvent event) { engine_->post_event(std::move(event)); }
  Result<void> listen();
  void load();
  Result<void> assemble(LoadedModel model);
  void start_serving();
  void failed(const Error& error);
  process::AdminRoutes admin_routes();
  process::Health readiness() const;
  std::string status_json();
  bool alive() const;
  void drain();
  void tick();

  const WorkerConfig& config_;
  const CoreFactory& make_core_;
  Identity identity_;
  net::EventLoop loop_;
  metrics::Registry registry_;
  metrics::MemoryWatch memory_{registry_};
  Probe probe_;
  Control control_;
  process::Drain drain_;
  std::unique_ptr<net::HttpServer> admin_;
  Endpoint control_endpoint_;
  net::Timer ticker_;
  std::atomic<int> load_percent_ = 0;
  bool serving_ = false;
  int exit_code_ = 0;
  Instant started_;
  // Built by the loader; the order is that of dependence.
  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<NodeCore> core_;
  std::unique_ptr<EngineThread> engine_;
  std::unique_ptr<handoff::Driver> driver_;
  std::thread loader_;
};

int WorkerProcess::run() {
  started_ = monotonic_now();
  if (const Result<void> listening = listen(); !listening) {
    log_error("{}", listening.error().message());
    return exit_config;
  }
  ticker_ = loop_.schedule_every(std::chrono::milliseconds(50), [this] { tick(); });
  loader_ = std::thread([this] { load(); });
  loop_.run();
  if (loader_.joinable()) loader_.join();
  ticker_.cancel();
  admin_.reset();
  control_.stop_serving();
  // Each of the two threads posts to the other: both have ended before either object goes.
  if (engine_) engine_->stop();
  driver_.reset();
  return exit_code_;
}

Result<void> WorkerProcess::listen() {
  BATON_ASSIGN(control_endpoint_, control_.listen(config_.control_listen));
  net::HttpServer::Options options;
  options.endpoint = config_.admin_listen;
  options.error_body = error_json;
  BATON_ASSIGN(admin_, process::listen_admin(loop_, std::move(options), admin_routes()));
  return process::announce(config_, role_name(identity_.role), identity_.node.value(),
                           {{"control", control_endpoint_}, {"admin", admin_->endpoint()}});
}

/// On the loader thread.
void WorkerProcess::load() {
  Result<LoadedModel> model =
      load_model(config_, [this](double share) { load_percent_ = static_cast<int>(share * 100); });
  Result<void> done = model ? assemble(std::move(*model)) : Result<void>(model.error());
  if (!done) {
    loop_.post([this, error = done.error()] { failed(error); });
    return;
  }
  loop_.post([this] { start_serving(); });
}

Result<void> WorkerProcess::assemble(LoadedModel model) {
  model_ = std::make_unique<LoadedModel>(std::move(model));
  NodeLimits limits;
  limits.model = model_->limits;
  limits.plan.token_budget = config_.token_budget;
  limits.plan.chunk_rows = config_.sequential_prefill ? 1 : config_.chunk_rows;
  limits.plan.layers = model_->model->config().layers;
  const bool limited = config_.step_budget > Duration{};
  limits.plan.shared_step =
      limited ? config_.step_budget * planned_percent / 100 : engine::PlanLimits::no_limit;
  limits.end_ids = model_->end_ids;
  limits.prefix_cache = config_.prefix_cache;
  limits.prefill_suffix_tokens = config_.prefill_suffix_tokens;
  limits.lease = config_.lease;
  limits.backlog_tokens = config_.backlog_tokens;
  limits.headroom_tokens = config_.headroom_tokens;
  core_ = make_core_(limits, model_->pools);
  engine_ = std::make_unique<EngineThread>(*model_, *core_, probe_, [this](auto effects) {
    loop_.post([this, effects = std::move(effects)]() mutable {
      control_.deliver(std::move(effects));
      engine_->delivered();
    });
  });
  handoff::DriverConfig driver;
  for (const std::string& name : config_.transports) {
    transport::Options options;
    options.bind_address = config_.data_listen.to_string();
    BATON_ASSIGN(auto transport, transport::make_transport(name, options));
    driver.transports.push_back(std::move(transport));
  }
  driver.arena = model_->arena.get();
  driver.geometry = model_->geometry;
  driver.fingerprint = model_->fingerprint.digest();
  driver.own_epoch = identity_.epoch;
  BATON_ASSIGN(driver_, handoff::Driver::create(std::move(driver), *this));
  return ok();
}

void WorkerProcess::start_serving() {
  loader_.join();
  if (drain_.since()) return;
  Serving serving;
  serving.fingerprint = model_->fingerprint;
  serving.bundle = model_->bundle;
  serving.engine = engine_.get();
  serving.driver = driver_.get();
  protocol::WorkerInfo& info = serving.info;
  info.model = std::filesystem::path(config_.model).stem().string();
  info.numerics_class = model_->kernels->numerics_class();
  info.kernel_set = model_->kernels->set_name();
  info.cache_dtype = tensor::name(config_.cache_dtype);
  info.context_length = model_->limits.context_length;
  info.cache_tokens = model_->cache_tokens;
  Endpoint advertised = control_endpoint_;
  if (!config_.advertise.empty()) advertised.host = config_.advertise;
  info.control_address = advertised.to_string();
  info.admin_url = "http://" + admin_->endpoint().to_string();
  info.bundle_digest = protocol::sha256(model_->bundle).to_string();
  info.prefix_cache = config_.prefix_cache;
  if (identity_.role == protocol::Role::decode) {
    info.prefill_suffix_tokens = config_.prefill_suffix_tokens;
  }
  for (const auto& [name, address] : driver_->addresses()) info.transports.push_back(name);
  const Duration took = monotonic_now() - started_;
  probe_.loaded(seconds(took));
  probe_.has_layer_groups(static_cast<int>(model_->pools.groups.size()));
  log_info("ready: {} ({}, {}), fingerprint {}, {:.2f} s", info.model, info.numerics_class,
           info.kernel_set, model_->fingerprint.digest().to_string().substr(0, 16), seconds(took));
  driver_->start();
  engine_->start(*driver_);
  control_.serve(std::move(serving));
  serving_ = true;
  load_percent_ = 100;
  (void)memory_.ask();  // so that the first to look sees the model in it
}

void WorkerProcess::failed(const Error& error) {
  log_error("{}", error.message());
  // A file that cannot be read or an address that is taken is the configuration's fault as well.
  const bool configuration = error.reason() == Reason::bad_model_file ||
                             error.reason() == Reason::bad_config ||
                             error.reason() == Reason::io_error;
  exit_code_ = configuration ? exit_config : exit_software;
  loop_.stop();
}

void WorkerProcess::drain() {
  if (!serving_) return loop_.stop();
  control_.set_draining();
  if (!engine_->post(StartDraining{})) loop_.stop();
}

void WorkerProcess::tick() {
  const Instant now = monotonic_now();
  control_.tick(now);
  if (!drain_.since()) return;
  // A status from before the drain may be stale by one turn of the engine's loop.
  const bool settled = now - *drain_.since() > std::chrono::milliseconds(100);
  const bool idle = settled && engine_->status().idle;
  if (idle || drain_.has_lasted(config_.drain_grace, now)) loop_.stop();
}

// ---- admin ----

bool WorkerProcess::alive() const {
  return !serving_ || monotonic_now() - engine_->last_progress() < hung_after;
}

process::Health WorkerProcess::readiness() const {
  if (drain_.since()) return {false, "draining"};
  if (!serving_) return {false, "loading " + std::to_string(load_percent_.load()) + " %"};
  return {alive(), alive() ? "ready" : "hung"};
}

std::string WorkerProcess::status_json() {
  boost::json::array pairs;
  for (const Control::Pair& pair : control_.pairs()) {
    pairs.push_back(
        {{"node", pair.node.value()}, {"transport", pair.transport}, {"why", pair.why}});
  }
  const auto memory = memory_.ask();
  return boost::json::serialize(
      boost::json::object{{"role", role_name(identity_.role)},
                          {"node", identity_.node.value()},
                          {"state", readiness().text},
                          {"memory_bytes", memory ? memory->proportional_bytes : 0},
                          {"pairs", std::move(pairs)}});
}

process::AdminRoutes WorkerProcess::admin_routes() {
  process::AdminRoutes routes;
  routes.registry = &registry_;
  routes.alive = [this] { return process::Health{alive(), alive() ? "alive" : "engine hung"}; };
  routes.ready = [this] { return readiness(); };
  routes.started = [this] {
    return process::Health{serving_, "loaded " + std::to_string(load_percent_.load()) + " %"};
  };
  routes.json = [this](std::string_view path) -> std::optional<std::string> {
    if (path != "/status") return std::nullopt;
    return status_json();
  };
  return routes;
}

/// On the processors of its list, from before the first thread on: all inherit it.
static int run_confined(protocol::Role role, const WorkerConfig& config,
                        const CoreFactory& make_core) {
  if (const Result<void> confined = confine_to(config.cpus); !confined) {
    log_error("{}", confined.error().message());
    return exit_config;
  }
  return WorkerProcess(role, config, make_core).run();
}

int worker_main(protocol::Role role, int argc, const char* const* argv,
                const CoreFactory& make_core) {
  WorkerConfig config;
  return process::run_program(
      role_name(role), argc, argv, config,
      [&config](ConfigTable& table) { add_options(table, config); },
      [&] { return run_confined(role, config, make_core); });
}

}  // namespace baton::worker

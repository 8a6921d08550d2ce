// The router process: sockets and time around the handoff table. On the loop thread, but for the
// work pool's jobs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <boost/json/object.hpp>

#include "baton/metrics/memory.h"
#include "baton/metrics/registry.h"
#include "baton/net/io/event_loop.h"
#include "baton/net/io/http_server.h"
#include "baton/process/admin.h"
#include "baton/process/drain.h"
#include "baton/tokenizer/prompt/model_text.h"

#include "config.h"
#include "probe.h"
#include "request_run.h"
#include "work_pool.h"
#include "worker_links.h"

namespace baton::router {

class RouterProcess final : public WorkerEvents {
 public:
  RouterProcess(const RouterConfig& config, std::string prefix_secret);
  int run();

  void worker_up(Worker worker) override;
  void worker_down(const WorkerRef& worker) override;
  void message(const WorkerRef& from, protocol::Message message) override;
  void bundle(std::string bytes) override;
  void dropped(Reason reason) override { probe_.dropped(reason); }

 private:
  using Responder = std::shared_ptr<net::HttpResponder>;
  /// A request's body made into ids.
  struct Prepared {
    ApiRequest request;
    std::vector<TokenId> ids;
  };
  using PreparedResult = boost::system::result<Prepared, ApiError>;
  /// The answer of /tokenize and /detokenize, and the model that was asked for.
  struct Converted {
    std::optional<std::string> model;
    boost::json::object body;
  };
  using ConvertedResult = boost::system::result<Converted, ApiError>;
  using Conversion = ConvertedResult (*)(const tokenizer::ModelText& text, const std::string& body);

  Result<void> listen();

  void api(net::HttpRequest request, const Responder& responder);
  process::AdminRoutes admin_routes();
  void generate(ApiKind kind, net::HttpRequest request, const Responder& responder);
  void prepared(PreparedResult result, const Responder& responder, Instant received);
  void submit(Prepared prepared, const Responder& responder, Instant received);
  void models(const Responder& responder);
  std::string workers_json() const;
  void convert(net::HttpRequest request, const Responder& responder, Conversion conversion);
  void converted(ConvertedResult result, const Responder& responder);
  static ConvertedResult tokenize(const tokenizer::ModelText& text, const std::string& body);
  static ConvertedResult detokenize(const tokenizer::ModelText& text, const std::string& body);
  /// Runs a job about a body of that size on a pool; false when too much is waiting.
  [[nodiscard]] bool offload(std::size_t body_bytes, const Responder& responder,
                             std::function<void()> job);
  void send_error(const Responder& responder, const Error& error, const std::string& param = "");
  static PreparedResult prepare(const tokenizer::ModelText& text, ApiKind kind,
                                const std::string& body);

  Result<void> check_model(const std::optional<std::string>& name) const;
  Result<void> limit_tokens(Prepared& prepared) const;
  std::string model_name() const;
  std::string fingerprint_word() const;
  std::int64_t context_length() const;

  void run_effects();
  void execute(SendTo& effect);
  void execute(DeliverTokens& effect);
  void execute(RequestEnded& effect);
  void execute(AttemptMade& effect) { probe_.attempt_made(effect.reason); }
  void execute(HandoffFailed& effect) { probe_.handoff_failed(effect.reason); }
  void execute(HandoffDone& effect) { probe_.handoff_done(effect.facts); }
  void client_gone(RequestId id);

  process::Health readiness() const;
  void tick();
  void drain_further(Instant now);

  const RouterConfig& config_;
  NodeId node_;
  Epoch epoch_;
  net::EventLoop loop_;
  metrics::Registry registry_;
  metrics::MemoryWatch memory_{registry_};
  Probe probe_;
  HandoffTable table_;
  process::Drain drain_;
  std::shared_ptr<const tokenizer::ModelText> text_;
  std::string worker_model_;
  std::map<RequestId, std::shared_ptr<RequestRun>> runs_;
  std::unique_ptr<WorkerLinks> links_;
  std::unique_ptr<net::HttpServer> api_;
  std::unique_ptr<net::HttpServer> admin_;
  // Megabytes of text take seconds: they wait for each other, nobody else waits for them.
  std::unique_ptr<WorkPool> pool_;
  std::unique_ptr<WorkPool> bulk_pool_;
  net::Timer ticker_;
  bool running_effects_ = false;
};

}  // namespace baton::router

// A cluster of processes on this machine: prefill and decode nodes, then a router in front of them,
// started, watched and stopped.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "baton/base/endpoint.h"
#include "baton/protocol/messages.h"
#include "baton/worker/processors.h"

#include "child.h"
#include "options.h"
#include "report.h"
#include "run_folder.h"
#include "signals.h"

namespace baton::cli {

/// One thread, the one that outlives the children (see Child).
class Cluster {
 public:
  /// `signals` outlives the cluster.
  Cluster(const UpOptions& options, RunFolder folder, Signals& signals);

  /// Returns when the router is ready and every pair of nodes is connected. Reason::cancelled when
  /// the user stopped it meanwhile, deadline_exceeded, or a node that ended: see failed_code().
  /// `progress` gets 0 to 1 while the nodes load the model.
  Result<void> start(const std::function<void(double)>& progress);

  /// For the banner; asks the nodes.
  Result<ClusterFacts> facts();
  const Endpoint& api() const { return api_; }

  /// All processes live. Otherwise Reason::worker_lost with the name and the end of its log.
  Result<void> check();
  /// The exit code to pass on after a process ended by itself.
  std::optional<int> failed_code() const { return failed_code_; }

  /// Router first, so that its requests can end on the workers; SIGTERM, a grace, SIGKILL. At once
  /// when the user asks again.
  void stop();

 private:
  struct Node {
    protocol::Role role = protocol::Role::prefill;
    Child child;
    Endpoint control;  ///< workers
    Endpoint admin;
    std::string processors;  ///< of workers: the list that it runs on; empty: any
  };

  Result<void> launch(protocol::Role role, const std::string& name,
                      const std::vector<std::string>& arguments);
  Result<void> launch_workers();
  Result<void> launch_worker(protocol::Role role, int number, const worker::ProcessorList& share);
  Result<void> launch_router();
  /// Which processors each worker runs on, prefill nodes first; nothing where the system places
  /// them.
  Result<void> share_processors();
  std::string processors_text() const;
  Result<void> await_announcements();
  Result<void> await_load(const std::function<void(double)>& progress);
  Result<void> await_pairs();
  /// Asks `done` again and again; `what` says in the message what did not come about.
  Result<void> await(const std::string& what, const std::function<bool()>& done);
  bool read_announcement(Node& node);
  void end(const std::function<bool(const Node&)>& chosen, Duration grace);

  const UpOptions& options_;
  RunFolder folder_;
  Signals& signals_;
  std::vector<worker::ProcessorList> shares_;
  std::vector<Node> nodes_;
  Endpoint api_;
  Instant deadline_;
  std::optional<int> failed_code_;
};

}  // namespace baton::cli

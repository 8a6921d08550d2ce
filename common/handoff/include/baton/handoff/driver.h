// The transport thread of a worker: runs the sender's and the receiver's core over real transports
// and the cache arena, computes digests. The engine and control threads post commands; answers come
// back through a listener.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "baton/handoff/core/commands.h"
#include "baton/handoff/core/receiver.h"
#include "baton/handoff/core/sender.h"
#include "baton/kvcache/arena.h"
#include "baton/transport/transport.h"

namespace baton::handoff {

/// Every method is called on the transport thread and returns at once (it posts to a queue).
class DriverListener {
 public:
  virtual ~DriverListener() = default;
  // To the engine thread.
  virtual void source_accepted(const SourceAccepted& event) = 0;
  virtual void source_failed(const SourceFailed& event) = 0;
  virtual void source_idle(SourceId source) = 0;
  virtual void commit_verified(const CommitVerified& event) = 0;
  virtual void grant_closed(std::uint64_t grant) = 0;
  virtual void held_units_differ(std::uint64_t grant) = 0;
  // To the control thread.
  virtual void send_to_pair(LinkId link, protocol::Message message) = 0;
  virtual void link_expected(LinkId link) = 0;
  virtual void link_lost(LinkId link, const Error& error) = 0;
  // To the metrics.
  virtual void units_refused(Reason reason) = 0;
  virtual void commit_refused(Reason reason) = 0;
  virtual void bytes_moved(std::uint64_t sent, std::uint64_t received) = 0;
};

struct DriverConfig {
  std::vector<std::unique_ptr<transport::Transport>> transports;
  kvcache::Arena* arena = nullptr;  ///< outlives the driver
  Geometry geometry;
  Digest256 fingerprint;
  Epoch own_epoch;
  SenderLimits sender;
  ReceiverLimits receiver;
  std::size_t behind_at = 1 << 18;  ///< so much mail that nothing new is begun
};

class Driver {
 public:
  /// Registers the arena with every transport.
  static Result<std::unique_ptr<Driver>> create(DriverConfig config, DriverListener& listener);
  /// Stops the thread; open transfers are cancelled.
  ~Driver();

  void start();

  // Posting is thread safe. The mailbox holds a million; a full one is a bug, for what may be
  // posted while the transport thread is behind is bounded by what the producers hold already.

  /// So much waits for the transport thread that nothing new should be begun.
  bool is_behind() const;
  /// Never refused: the engine thread plans no step and takes no mail while the driver is behind.
  void post(EngineCommand command);
  /// Never refused: it ends a link that was taken.
  void post(DropLink command);
  /// False while the driver is behind: the caller fails the peer's connection.
  [[nodiscard]] bool post(LinkCommand command);
  /// False when too many of a peer's messages wait: the caller fails the peer's connection.
  [[nodiscard]] bool post(PairMessage message);

  /// Name and address of each transport, in the order of preference.
  std::vector<std::pair<std::string, std::string>> addresses() const;

 private:
  class Loop;
  explicit Driver(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace baton::handoff

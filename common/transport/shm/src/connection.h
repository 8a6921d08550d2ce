// One SOCK_SEQPACKET connection that never blocks: an outbox in front, whole messages behind.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "baton/transport/descriptor.h"
#include "baton/transport/transport.h"

namespace baton::transport::shm {

class Connection {
 public:
  explicit Connection(Descriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }

  /// Appends a message; `file` (not owned) is passed along with it. `written` is reported by
  /// flush() once the kernel has the message.
  void queue(std::vector<std::byte> bytes, int file = -1, std::optional<SendId> written = {});

  /// Writes what the socket takes, appends what was reported as written. False: it is broken.
  bool flush(std::vector<SendId>& written);
  std::size_t queued() const { return outbox_.size(); }

  enum class Received { message, nothing, closed };
  /// Reads one message into `buffer` and cuts it to size; `file` is the descriptor that came along.
  Received receive(std::vector<std::byte>& buffer, Descriptor& file);

  /// True if the other end runs as this user (SO_PEERCRED).
  bool same_user() const;

 private:
  struct Outgoing {
    std::vector<std::byte> bytes;
    int file = -1;
    std::optional<SendId> written;
  };
  /// 1 written, 0 try later, -1 broken.
  int write_one(const Outgoing& message) const;

  Descriptor socket_;
  std::deque<Outgoing> outbox_;
};

}  // namespace baton::transport::shm

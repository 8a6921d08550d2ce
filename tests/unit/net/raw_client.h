// A blocking TCP client without any HTTP in it: the tests say what bytes go out and look at those
// that come back.
#pragma once

#include <string>
#include <string_view>

#include "baton/base/endpoint.h"
#include "baton/base/time.h"

#include "loop_thread.h"

namespace baton::net::testing {

class RawClient {
 public:
  /// `receive_buffer_bytes` above 0 asks for a small window, so that the server's writes stall.
  explicit RawClient(const Endpoint& server, int receive_buffer_bytes = 0);
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient(const RawClient&) = delete;

  /// False when the server has closed.
  bool send(std::string_view bytes);

  /// Everything until `mark` has come, the server closed, or the patience ended.
  std::string read_until(std::string_view mark, Duration patience = test_patience);

  /// One whole answer with a Content-Length, later bytes kept for the next call.
  std::string read_answer(Duration patience = test_patience);

  /// Everything until the server closes; `closed()` says whether it did.
  std::string read_all(Duration patience = test_patience);
  bool closed() const { return closed_; }

  /// What one receive call gives: 64 KiB at most.
  std::string read_once(Duration patience = test_patience);

  void shut_down_sending();
  void close();
  /// Ends the connection with a reset.
  void reset();

 private:
  bool receive(Instant deadline);

  int fd_ = -1;
  bool closed_ = false;
  std::string buffer_;
};

}  // namespace baton::net::testing

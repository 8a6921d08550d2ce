// What the transports are measured against: a copy in memory, and a TCP connection over loopback
// with scattered writes and reads.
#pragma once

#include <string>
#include <vector>

#include "baton/base/time.h"
#include "baton/transport/transport.h"

namespace baton::transport::bench {

struct Lists {
  std::vector<Extent> from;
  std::vector<Extent> to;
};

/// Time of `repeats` copies of the lists, one thread.
Duration time_memcpy(const Lists& lists, int repeats);

/// A connected pair of TCP sockets on loopback, with the given congestion control ("" leaves the
/// system's).
class TcpPair {
 public:
  explicit TcpPair(const std::string& congestion_control);
  ~TcpPair();
  TcpPair(const TcpPair&) = delete;
  TcpPair& operator=(const TcpPair&) = delete;

  /// Time of `repeats` transfers of the lists, a writing and a reading thread.
  Duration time(const Lists& lists, int repeats) const;

 private:
  int writer_ = -1;
  int reader_ = -1;
};

}  // namespace baton::transport::bench

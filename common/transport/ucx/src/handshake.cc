#include "handshake.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace baton::transport::ucx {
namespace {

/// Changes with every change of what two sides say to each other, here or by UCX.
constexpr std::uint32_t handshake_magic = 0xBA70F001;
constexpr std::size_t max_worker_address_bytes = 4096;

struct Prefix {
  std::uint32_t magic = handshake_magic;
  std::uint32_t address_bytes = 0;
  std::uint64_t token_high = 0;
  std::uint64_t token_low = 0;
};

Error failed(const char* step, int error) {
  return {Reason::transport_failed, fmt::format("{}: {}", step, std::strerror(error))};
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

void Handshake::say(const Greeting& greeting) {
  const Prefix prefix{handshake_magic, static_cast<std::uint32_t>(greeting.worker_address.size()),
                      greeting.token.value().high, greeting.token.value().low};
  const auto bytes = std::as_bytes(std::span(&prefix, 1));
  outbox_.insert(outbox_.end(), bytes.begin(), bytes.end());
  outbox_.insert(outbox_.end(), greeting.worker_address.begin(), greeting.worker_address.end());
}

Result<void> Handshake::step() {
  BATON_TRY(write_outbox());
  return read_inbox();
}

Result<void> Handshake::write_outbox() {
  if (outbox_.empty()) return ok();
  const ssize_t written =
      ::send(socket_.get(), outbox_.data(), outbox_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written < 0 && (would_block(errno) || errno == ENOTCONN)) return ok();
  if (written < 0) return failed("connection", errno);
  outbox_.erase(outbox_.begin(), outbox_.begin() + written);
  return ok();
}

Result<void> Handshake::read_inbox() {
  std::array<std::byte, 1024> buffer;
  for (;;) {
    const ssize_t count = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    // ENOTCONN: still connecting; a refusal is reported by the socket as itself.
    if (count < 0 && (would_block(errno) || errno == ENOTCONN)) return ok();
    if (count < 0) return failed("connection", errno);
    if (count == 0) return Error(Reason::transport_failed, "the peer closed the connection");
    inbox_.insert(inbox_.end(), buffer.begin(), buffer.begin() + count);
    Prefix prefix;
    std::memcpy(&prefix, inbox_.data(), std::min(inbox_.size(), sizeof(prefix)));
    const bool known =
        inbox_.size() < sizeof(prefix) ||
        (prefix.magic == handshake_magic && prefix.address_bytes <= max_worker_address_bytes &&
         inbox_.size() <= sizeof(prefix) + prefix.address_bytes);
    if (!known || greeted_) {
      return Error(Reason::protocol_violation, "the connection speaks something else");
    }
  }
}

std::optional<Greeting> Handshake::take_greeting() {
  Prefix prefix;
  if (greeted_ || inbox_.size() < sizeof(prefix)) return std::nullopt;
  std::memcpy(&prefix, inbox_.data(), sizeof(prefix));
  if (inbox_.size() != sizeof(prefix) + prefix.address_bytes) return std::nullopt;
  greeted_ = true;
  Greeting greeting;
  greeting.token = PairToken(RequestId{prefix.token_high, prefix.token_low});
  greeting.worker_address.assign(inbox_.begin() + sizeof(prefix), inbox_.end());
  inbox_.clear();
  return greeting;
}

Result<Descriptor> listen_at(const SocketAddress& address) {
  Descriptor socket_fd(
      socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_fd) return failed("socket", errno);
  const int on = 1;
  setsockopt(socket_fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(socket_fd.get(), address.get(), address.size) != 0 ||
      listen(socket_fd.get(), SOMAXCONN) != 0) {
    const int why = errno;
    return Error(Reason::io_error, fmt::format("cannot listen on {}: {}",
                                               format_socket_address(address), std::strerror(why)));
  }
  return socket_fd;
}

std::string bound_address(int descriptor) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&address.storage), &address.size);
  return format_socket_address(address);
}

Result<Descriptor> start_connecting(const SocketAddress& address) {
  Descriptor socket_fd(
      socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_fd) return failed("socket", errno);
  const int on = 1;
  setsockopt(socket_fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (connect(socket_fd.get(), address.get(), address.size) != 0 && errno != EINPROGRESS) {
    return failed("connect", errno);
  }
  return socket_fd;
}

Descriptor accept_from(int listener) {
  return Descriptor(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

}  // namespace baton::transport::ucx

#include "connection.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>

#include "wire.h"

namespace baton::transport::shm {

void Connection::queue(std::vector<std::byte> bytes, int file, std::optional<SendId> written) {
  outbox_.push_back({std::move(bytes), file, written});
}

int Connection::write_one(const Outgoing& message) const {
  iovec part = {const_cast<std::byte*>(message.bytes.data()), message.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (message.file >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &message.file, sizeof(int));
  }
  for (;;) {
    if (sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return 1;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
  }
}

bool Connection::flush(std::vector<SendId>& written) {
  while (!outbox_.empty()) {
    const int result = write_one(outbox_.front());
    if (result < 0) return false;
    if (result == 0) return true;
    if (outbox_.front().written) written.push_back(*outbox_.front().written);
    outbox_.pop_front();
  }
  return true;
}

Connection::Received Connection::receive(std::vector<std::byte>& buffer, Descriptor& file) {
  buffer.resize(max_message_bytes);
  iovec part = {buffer.data(), buffer.size()};
  // Room for one descriptor: the kernel drops any other (MSG_CTRUNC, checked below).
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t bytes = 0;
  do {
    bytes = recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Received::nothing;
  if (bytes <= 0) return Received::closed;
  file = Descriptor();
  const cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  if (rights != nullptr && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS &&
      rights->cmsg_len >= CMSG_LEN(sizeof(int))) {
    int value = -1;
    std::memcpy(&value, CMSG_DATA(rights), sizeof(int));
    file = Descriptor(value);
  }
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return Received::closed;
  buffer.resize(static_cast<std::size_t>(bytes));
  return Received::message;
}

bool Connection::same_user() const {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  return getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
         credentials.uid == geteuid();
}

}  // namespace baton::transport::shm

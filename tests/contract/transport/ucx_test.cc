// UCX against connections that are none of ours, and its configuration.
#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/node.h"

namespace baton::transport::test {
namespace {

/// A plain TCP connection to a transport's listener.
class Stray {
 public:
  explicit Stray(const std::string& address) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in target = {};
    target.sin_family = AF_INET;
    target.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    inet_pton(AF_INET, "127.0.0.1", &target.sin_addr);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&target), sizeof(target)), 0);
  }
  ~Stray() { close(socket_); }
  Stray(const Stray&) = delete;
  Stray& operator=(const Stray&) = delete;

  void say(std::string_view text) const {
    EXPECT_GE(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL), 0);
  }
  bool closed() const {
    char byte = 0;
    const ssize_t count = recv(socket_, &byte, 1, MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN);
  }

 private:
  int socket_;
};

TEST(Ucx, StrayConnectionsDoNotDisturbTransfersSEC15) {
  Pair pair("ucx");
  const Stray silent(pair.receiver->address());
  const Stray http(pair.receiver->address());
  http.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  const Stray noise(pair.receiver->address());
  noise.say(std::string(100'000, '\xff'));
  const std::vector from = {pair.sender.extent(0, 1'000'000)};
  for (std::uint64_t i = 0; i < 20; ++i) {
    fill(from, i);
    ASSERT_TRUE(pair.sender->send(SendId(i), pair.to_receiver, {}, from).has_value());
    const Offered offered = pair.next_offer();
    const std::vector to = {pair.receiver.extent(0, 1'000'000)};
    pair.receiver->accept(offered.offer, to);
    ASSERT_TRUE(pair.pump([&] { return pair.sender.sent(SendId(i)).has_value(); }));
    ASSERT_TRUE(matches(to, i, 1'000'000));
  }
  // A new peer gets in past them.
  Node late("ucx");
  connect(late, pair.receiver);
  EXPECT_TRUE(pump(
      {&pair.receiver}, [&] { return http.closed() && noise.closed(); }, 5s));
}

TEST(Ucx, ABindAddressThatIsNotOursIsABadConfig) {
  for (const char* address :
       {"", "127.0.0.1", "localhost:1", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "127.0.0.1:99999"}) {
    Options options;
    options.bind_address = address;
    const auto made = make_transport("ucx", options);
    ASSERT_TRUE(made.has_error()) << address;
    EXPECT_EQ(made.error().reason(), Reason::bad_config) << address;
  }
}

TEST(Ucx, TheListenerIsOnTheBindAddressR28) {
  Node node("ucx");
  EXPECT_TRUE(node->address().starts_with("ucx:127.0.0.1:"));
  EXPECT_FALSE(node->address().ends_with(":0"));
}

TEST(Factory, AnUnknownNameIsABadConfigThatListsTheNames) {
  const auto made = make_transport("nonsense", {});
  EXPECT_EQ(made.error().reason(), Reason::bad_config);
  for (const std::string_view name : transport_names()) {
    EXPECT_NE(made.error().message().find(name), std::string::npos);
  }
}

}  // namespace
}  // namespace baton::transport::test

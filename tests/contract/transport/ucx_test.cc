// UCX against connections that are none of ours, and its configuration.
#include <cerrno>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
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
  explicit Stray(const std::string& address)
      : Stray(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)))) {}
  explicit Stray(std::uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in target = {};
    target.sin_family = AF_INET;
    target.sin_port = htons(port);
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

/// Every TCP port that this process listens at.
std::set<std::uint16_t> listening_ports() {
  std::set<std::string> own_inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    own_inodes.insert(std::filesystem::read_symlink(entry.path(), error).string());
  }
  std::set<std::uint16_t> ports;
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::vector<std::string> fields(std::istream_iterator<std::string>(words), {});
    if (fields.size() < 10 || fields[3] != "0A") continue;  // 0A: listening
    if (!own_inodes.contains("socket:[" + fields[9] + "]")) continue;
    ports.insert(static_cast<std::uint16_t>(std::stoul(fields[1].substr(9), nullptr, 16)));
  }
  return ports;
}

void expect_good_transfers(Pair& pair) {
  const std::vector from = {pair.sender.extent(0, 1'000'000)};
  const std::vector to = {pair.receiver.extent(0, 1'000'000)};
  const std::uint64_t first = pair.sender.send_dones.size();
  for (std::uint64_t i = first; i < first + 20; ++i) {
    fill(from, i);
    ASSERT_TRUE(pair.sender->send(SendId(i), pair.to_receiver, {}, from).has_value());
    pair.receiver->accept(pair.next_offer().offer, to);
    ASSERT_TRUE(pair.pump([&] { return pair.sender.sent(SendId(i)).has_value(); }));
    ASSERT_TRUE(matches(to, i, 1'000'000));
  }
}

TEST(Ucx, StrayConnectionsAreClosedAndDoNotDisturbTransfersSEC15) {
  Options options = patient();
  options.hello_deadline = 1s;
  Pair pair("ucx", options);
  const Stray silent(pair.receiver->address());
  const Stray http(pair.receiver->address());
  http.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  const Stray noise(pair.receiver->address());
  noise.say(std::string(100'000, '\xff'));
  expect_good_transfers(pair);
  Node late("ucx");
  connect(late, pair.receiver);
  EXPECT_TRUE(
      pump({&pair.receiver}, [&] { return http.closed() && noise.closed() && silent.closed(); }));
}

/// UCX's own listeners too, which a connection's worker opens. A silent connection may stay there:
/// it costs one socket.
TEST(Ucx, StrayConnectionsToAnyPortOfTheProcessDoNotDisturbTransfersSEC15) {
  Pair pair("ucx");
  const std::set<std::uint16_t> ports = listening_ports();
  EXPECT_GE(ports.size(), 4u);  // a listener of ours and a worker, on two sides
  std::deque<Stray> strays;
  for (const std::uint16_t port : ports) {
    strays.emplace_back(port);
    strays.emplace_back(port).say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    strays.emplace_back(port).say(std::string(5, '\0'));
  }
  expect_good_transfers(pair);
  Node late("ucx");
  connect(late, pair.receiver);
}

TEST(Ucx, AGreetingThatIsTooLongOrFollowedByMoreIsClosedR7) {
  Node victim("ucx");
  const PairToken token = random_token();
  const PeerId expected = victim->expect(token);
  struct {
    std::uint32_t magic = 0xBA70F001;
    std::uint32_t address_bytes = 4097;
    RequestId token;
  } prefix;
  prefix.token = token.value();
  const std::string_view bytes(reinterpret_cast<const char*>(&prefix), sizeof(prefix));
  const Stray too_long(victim->address());
  too_long.say(bytes);
  EXPECT_TRUE(pump({&victim}, [&] { return too_long.closed(); }));
  prefix.address_bytes = 10;
  const Stray more(victim->address());
  more.say(std::string(bytes) + std::string(11, 'x'));
  EXPECT_TRUE(pump({&victim}, [&] { return more.closed(); }));
  EXPECT_FALSE(victim.is_up(expected));
}

/// A listener whose backlog is full drops what comes, like a host that is gone.
TEST(Ucx, ABlackHoledPeerEndsAtItsDeadlineAndHoldsUpNobodyRST08) {
  const int hole = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(hole, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(hole, 0), 0);
  getsockname(hole, reinterpret_cast<sockaddr*>(&address), &size);
  const Stray filler(ntohs(address.sin_port));

  Options options = patient();
  options.connect_deadline = 3s;  // long enough for the pair to meet on a busy machine
  Pair pair("ucx", options);
  const Instant start = monotonic_now();
  const PeerId lost =
      pair.sender
          ->connect("ucx:127.0.0.1:" + std::to_string(ntohs(address.sin_port)), random_token())
          .value();
  expect_good_transfers(pair);
  EXPECT_TRUE(pair.pump([&] { return pair.sender.is_down(lost); }));
  EXPECT_GE(monotonic_now() - start, options.connect_deadline - 10ms) << "it was no black hole";
  close(hole);
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

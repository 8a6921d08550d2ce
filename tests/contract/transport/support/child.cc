// A second process for the tests that kill and stop one: connects to the test and then receives
// whatever is offered, or sends without end. Ends when its peer is gone.
//
//   transport_child NAME ADDRESS TOKEN_HIGH TOKEN_LOW receive|hold|send
//
// The header of a message is the seed of its pattern. Exit code 3: a receive that was reported as
// good held other bytes.
#include <cstdlib>
#include <cstring>
#include <string>

#include "support/node.h"

namespace baton::transport::test {
namespace {

constexpr std::size_t arena_bytes = std::size_t{64} << 20;

std::uint64_t seed_of(const Offered& offered) {
  std::uint64_t seed = 0;
  std::memcpy(&seed, offered.header.data(), std::min(sizeof(seed), offered.header.size()));
  return seed;
}

/// Accepts one offer after another; an exit code once something is wrong.
int receive(Node& node) {
  if (node.offers.empty()) return 0;
  const Offered offered = node.offers.front();
  node.offers.pop_front();
  const std::vector to = {node.extent(0, offered.bytes)};
  node->accept(offered.offer, to);
  while (!node.received(offered.offer)) node.poll(10ms);
  const bool good = node.received(offered.offer) == Status::ok;
  if (good && !matches(to, seed_of(offered), offered.bytes)) return 3;
  return 0;
}

void keep_sending(Node& node, PeerId peer, std::uint64_t& next) {
  constexpr std::uint64_t seed = 7;
  if (next - node.send_dones.size() > 3) return;
  const auto header = std::as_bytes(std::span(&seed, 1));
  const std::vector from = {node.extent(0, arena_bytes)};
  if (node->send(SendId(next), peer, header, from).has_value()) ++next;
}

int run(char** argv) {
  const std::string mode = argv[5];
  Node node(argv[1], {}, arena_bytes);
  const PairToken token(
      RequestId{std::strtoull(argv[3], nullptr, 10), std::strtoull(argv[4], nullptr, 10)});
  const auto connected = node->connect(argv[2], token);
  if (connected.has_error()) return 2;
  const PeerId peer = *connected;
  if (mode == "send") fill(std::vector{node.extent(0, arena_bytes)}, 7);
  std::uint64_t next = 0;
  while (!node.is_down(peer)) {
    node.poll(10ms);
    if (!node.is_up(peer)) continue;
    if (mode == "send") keep_sending(node, peer, next);
    if (const int code = mode == "receive" ? receive(node) : 0; code != 0) return code;
  }
  return 0;
}

}  // namespace
}  // namespace baton::transport::test

int main(int argc, char** argv) { return argc == 6 ? baton::transport::test::run(argv) : 1; }

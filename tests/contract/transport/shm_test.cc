// Shared memory against a hostile or foreign peer.
#include "baton/transport/shm/shm.h"

#include <cstring>
#include <random>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "host.h"
#include "mapped_regions.h"
#include "support/node.h"
#include "wire.h"

namespace baton::transport::shm {
namespace {

using test::Node;
using test::pump;
using namespace std::chrono_literals;

std::string with_field(std::string address, std::size_t index, const std::string& value) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < index; ++i) begin = address.find(':', begin) + 1;
  return address.replace(begin, address.find(':', begin) - begin, value);
}

TEST(Shm, ConnectRefusesAnotherHostAndAnotherUserByName) {
  Node node("shm");
  const std::string address = node->address();
  const auto other_host =
      node->connect(with_field(address, 1, "11111111-2222-3333-4444-555555555555"), {});
  EXPECT_EQ(other_host.error().reason(), Reason::transport_failed);
  EXPECT_NE(other_host.error().message().find("one host"), std::string::npos);
  const auto other_user = node->connect(with_field(address, 2, "12345"), {});
  EXPECT_NE(other_user.error().message().find("one user"), std::string::npos);
}

TEST(Shm, AFileThatCanShrinkOrIsTooSmallIsNotMappedR13) {
  const auto file = [](std::size_t bytes) {
    Descriptor result(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(ftruncate(result.get(), static_cast<off_t>(bytes)), 0);
    return result;
  };
  MappedRegions regions;
  EXPECT_EQ(regions.add(0, 4096, file(4096)).error().reason(), Reason::protocol_violation);
  auto good = tensor::SharedBuffer::create("good", 8192).value();
  EXPECT_TRUE(regions.add(0, 8193, Descriptor(dup(good.descriptor()))).has_error());
  EXPECT_TRUE(regions.add(16, 8192, Descriptor(dup(good.descriptor()))).has_error());
  EXPECT_TRUE(regions.add(0, 8192, Descriptor()).has_error());
  EXPECT_TRUE(regions.add(0, 8192, Descriptor(dup(good.descriptor()))).has_value());
  EXPECT_TRUE(regions.add(0, 8192, Descriptor(dup(good.descriptor()))).has_error()) << "twice";
}

TEST(Shm, ARangeIsResolvedOnlyInsideItsRegionR3R13) {
  MappedRegions regions;
  auto buffer = tensor::SharedBuffer::create("region", 8192).value();
  ASSERT_TRUE(regions.add(1, 8192, Descriptor(dup(buffer.descriptor()))).has_value());
  constexpr auto huge = ~std::uint64_t{0};
  EXPECT_EQ(regions.resolve({1, 0, 8192})->size(), 8192u);
  EXPECT_EQ(regions.resolve({1, 8191, 1})->size(), 1u);
  for (const RegionRange& range :
       {RegionRange{0, 0, 1}, RegionRange{2, 0, 1}, RegionRange{99, 0, 1}, RegionRange{1, 0, 8193},
        RegionRange{1, 8192, 1}, RegionRange{1, 8191, 2}, RegionRange{1, huge, 2},
        RegionRange{1, 2, huge}, RegionRange{1, huge, huge}}) {
    EXPECT_FALSE(regions.resolve(range).has_value()) << range.offset << " " << range.bytes;
  }
}

TEST(Shm, MessagesSurviveTheWireAndEveryCutOrExtensionIsRefused) {
  Offer offer;
  offer.sequence = 7;
  offer.header = test::bytes_of("header");
  offer.ranges = {{1, 2, 3}, {4, 5, 6}};
  const std::vector<Message> messages = {
      Hello{1, test::random_token()}, Welcome{}, Region{3, 4096}, offer,
      Verdict{9, Status::truncated},  Cancel{8}};
  for (const Message& message : messages) {
    const auto bytes = encode(message);
    const auto decoded = decode(bytes);
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(encode(*decoded), bytes);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode(std::span(bytes).first(size)).has_value());
    }
    auto longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decode(longer).has_value());
  }
}

TEST(Shm, RandomBytesNeverDecodeToMoreThanTheLimitsR7) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(random() % 200);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (!bytes.empty()) bytes[0] = static_cast<std::byte>(random() % 7);
    const auto message = decode(bytes);
    if (message && std::holds_alternative<Offer>(*message)) {
      EXPECT_LE(std::get<Offer>(*message).header.size(), max_header_bytes);
    }
  }
}

TEST(Shm, AStatusOfANewerPeerIsAFailureCOR20) {
  auto bytes = encode(Verdict{9, Status::ok});
  bytes.back() = std::byte{99};
  EXPECT_EQ(std::get<Verdict>(*decode(bytes)).status, Status::failed);
}

/// Speaks the protocol by hand.
class Hostile : public testing::Test {
 protected:
  Connection dial() {
    const auto name = parse_address(victim->address(), this_host().value()).value();
    const SocketAddress address = abstract_address(name);
    Descriptor descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(connect(descriptor.get(), reinterpret_cast<const sockaddr*>(&address.address),
                      address.size),
              0);
    return Connection(std::move(descriptor));
  }
  static void write(Connection& connection, const Message& message, int file = -1) {
    write_bytes(connection, encode(message), file);
  }
  static void write_bytes(Connection& connection, std::vector<std::byte> bytes, int file = -1) {
    std::vector<SendId> written;
    connection.queue(std::move(bytes), file);
    connection.flush(written);
  }
  /// Up to its admission.
  std::pair<Connection, PeerId> admitted() {
    const PairToken token = test::random_token();
    const PeerId peer = victim->expect(token);
    Connection connection = dial();
    write(connection, Hello{protocol_version, token});
    EXPECT_TRUE(pump({&victim}, [&] { return victim.is_up(peer); }));
    return {std::move(connection), peer};
  }
  bool closed(Connection& connection) {
    std::vector<std::byte> buffer;
    Descriptor file;
    return pump({&victim},
                [&] { return connection.receive(buffer, file) == Connection::Received::closed; });
  }

  Options options = [] {
    Options short_deadlines = test::patient();
    short_deadlines.hello_deadline = 500ms;
    short_deadlines.max_open_sends = 4;
    return short_deadlines;
  }();
  Node victim{"shm", options};
};

TEST_F(Hostile, SilentAndTalkativeStrangersAreClosedSEC15) {
  Connection silent = dial();
  EXPECT_TRUE(closed(silent));
  Connection talkative = dial();
  write_bytes(talkative, test::bytes_of("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(closed(talkative));
  Connection eager = dial();
  write(eager, Offer{});
  EXPECT_TRUE(closed(eager));
}

TEST_F(Hostile, EachRuleBrokenClosesThatPeerAloneR6) {
  auto [good, good_peer] = admitted();
  auto file = tensor::SharedBuffer::create("file", 4096).value();
  std::vector<std::function<void(Connection&)>> crimes = {
      [](Connection& c) { write(c, Hello{}); },
      [](Connection& c) { write(c, Welcome{}); },
      [](Connection& c) {
        write(c, Verdict{5, Status::ok});
      },
      [](Connection& c) {
        write(c, Offer{1, {}, {}});
      },
      [](Connection& c) {
        write(c, Offer{0, {}, {{0, 0, 1}}});
      },
      [](Connection& c) {
        write(c, Region{0, 4096});
      },
      [&](Connection& c) {
        write(c, Region{99, 4096}, file.descriptor());
      },
      [&](Connection& c) {
        write(c, Region{0, 4096}, file.descriptor());
        write(c, Offer{0, {}, {{0, 1, 4096}}});
      },
      [](Connection& c) {
        for (std::uint64_t i = 0; i < 5; ++i) write(c, Offer{i, {}, {}});
      },
      [](Connection& c) { write_bytes(c, std::vector<std::byte>(3)); }};
  for (std::size_t i = 0; i < crimes.size(); ++i) {
    auto [connection, peer] = admitted();
    crimes[i](connection);
    EXPECT_TRUE(pump({&victim}, [&] { return victim.is_down(peer); })) << i;
    EXPECT_TRUE(closed(connection)) << i;
  }
  EXPECT_FALSE(victim.is_down(good_peer));
}

}  // namespace
}  // namespace baton::transport::shm

// Moves 512 scattered blocks of 16, 64 and 256 KiB over each transport, beside memcpy and a plain
// TCP connection in the same run, alternating. Prints medians of rates and of the ratios of each
// round; absolute figures move by a third with the machine's other work.
//
//   transport_bench [rounds]
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "baton/base/check.h"
#include "baton/transport/factory/factory.h"

#include "baselines.h"

namespace baton::transport::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t blocks = 512;
constexpr std::size_t largest_block = std::size_t{256} << 10;
constexpr std::uint64_t sends_in_flight = 4;

/// Two transports of one kind in this process, each polled by a thread of its own.
class Moved {
 public:
  Moved(std::string_view name, tensor::SharedBuffer& from, tensor::SharedBuffer& to)
      : sender_(std::move(make_transport(name, {}).value())),
        receiver_(std::move(make_transport(name, {}).value())) {
    BATON_CHECK(sender_->register_memory(from).has_value());
    BATON_CHECK(receiver_->register_memory(to).has_value());
    const PairToken token(random_request_id());
    receiver_->expect(token);
    peer_ = sender_->connect(receiver_->address(), token).value();
    std::vector<Event> events;
    while (events.size() < 2) {
      sender_->poll(1ms, events);
      receiver_->poll(1ms, events);
    }
  }

  Duration time(const Lists& lists, int repeats) {
    const Instant start = monotonic_now();
    std::thread sending([&] { send_all(lists, static_cast<std::uint64_t>(repeats)); });
    receive_all(lists, repeats);
    sending.join();
    return monotonic_now() - start;
  }

 private:
  void send_all(const Lists& lists, std::uint64_t count) {
    std::vector<Event> events;
    std::uint64_t started = 0;
    std::uint64_t done = 0;
    while (done < count) {
      for (; started < count && started - done < sends_in_flight; ++started) {
        BATON_CHECK(sender_->send(SendId(next_id_++), peer_, {}, lists.from).has_value());
      }
      events.clear();
      sender_->poll(100ms, events);
      for (const Event& event : events) {
        const auto* const ended = std::get_if<SendDone>(&event);
        BATON_CHECK(ended != nullptr && ended->status == Status::ok);
        ++done;
      }
    }
  }

  void receive_all(const Lists& lists, int count) {
    std::vector<Event> events;
    for (int done = 0; done < count;) {
      events.clear();
      receiver_->poll(100ms, events);
      for (const Event& event : events) {
        if (const auto* const offered = std::get_if<Offered>(&event)) {
          receiver_->accept(offered->offer, lists.to);
        } else {
          BATON_CHECK(std::get<ReceiveDone>(event).status == Status::ok);
          ++done;
        }
      }
    }
  }

  std::unique_ptr<Transport> sender_;
  std::unique_ptr<Transport> receiver_;
  PeerId peer_;
  std::uint64_t next_id_ = 1;
};

/// Blocks of both arenas in two different random orders.
Lists make_lists(tensor::SharedBuffer& from, tensor::SharedBuffer& to, std::size_t block) {
  std::vector<std::size_t> order(blocks);
  for (std::size_t i = 0; i < blocks; ++i) order[i] = i;
  std::mt19937_64 random(1);
  Lists lists;
  std::shuffle(order.begin(), order.end(), random);
  for (const std::size_t i : order) lists.from.push_back({from.data() + i * largest_block, block});
  std::shuffle(order.begin(), order.end(), random);
  for (const std::size_t i : order) lists.to.push_back({to.data() + i * largest_block, block});
  return lists;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(int rounds) {
  auto from = tensor::SharedBuffer::create("from", blocks * largest_block).value();
  auto to = tensor::SharedBuffer::create("to", blocks * largest_block).value();
  std::fill(from.span().begin(), from.span().end(), std::byte{1});
  std::fill(to.span().begin(), to.span().end(), std::byte{2});
  Moved shm("shm", from, to);
  Moved ucx("ucx", from, to);
  const TcpPair tcp("");
  const TcpPair reno("reno");
  fmt::print("{:>8} | {:>7} {:>7} {:>7} {:>7} {:>7} GB/s | shm/memcpy ucx/tcp ucx/tcp(reno)\n",
             "block", "memcpy", "shm", "tcp", "reno", "ucx");
  for (const std::size_t block : {std::size_t{16} << 10, std::size_t{64} << 10, largest_block}) {
    const Lists lists = make_lists(from, to, block);
    const int repeats = static_cast<int>((std::size_t{128} << 20) / (blocks * block));
    const double gigabytes = static_cast<double>(repeats * blocks * block) * 1e-9;
    std::map<std::string, std::vector<double>> rates;
    for (int round = 0; round < rounds; ++round) {
      const auto rate = [&](Duration time) { return gigabytes / seconds(time); };
      rates["memcpy"].push_back(rate(time_memcpy(lists, repeats)));
      rates["shm"].push_back(rate(shm.time(lists, repeats)));
      rates["tcp"].push_back(rate(tcp.time(lists, repeats)));
      rates["reno"].push_back(rate(reno.time(lists, repeats)));
      rates["ucx"].push_back(rate(ucx.time(lists, repeats)));
    }
    const auto ratio = [&](const char* above, const char* below) {
      std::vector<double> ratios;
      for (std::size_t i = 0; i < rates[above].size(); ++i) {
        ratios.push_back(rates[above][i] / rates[below][i]);
      }
      return median(ratios);
    };
    fmt::print(
        "{:>4} KiB | {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f}      | {:>10.2f} {:>7.2f} "
        "{:>13.2f}\n",
        block >> 10, median(rates["memcpy"]), median(rates["shm"]), median(rates["tcp"]),
        median(rates["reno"]), median(rates["ucx"]), ratio("shm", "memcpy"), ratio("ucx", "tcp"),
        ratio("ucx", "reno"));
  }
}

}  // namespace
}  // namespace baton::transport::bench

int main(int argc, char** argv) {
  baton::transport::bench::run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 7);
  return 0;
}

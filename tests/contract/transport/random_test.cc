// Random sequences of everything the interface offers, over every transport: whatever happens, each
// operation ends once, and a payload that is reported as received is the one that was sent.
#include <array>
#include <cstring>
#include <random>

#include "support/node.h"
#include "support/param.h"

namespace baton::transport::test {
namespace {

constexpr std::size_t slots = 8;
constexpr std::size_t slot_bytes = 300'000;

class RandomWalk {
 public:
  RandomWalk(const std::string& name, std::uint64_t seed) : random_(seed), pair_(name) {}

  /// At least `steps` calls; more where a busy machine moves little in them.
  void run(int steps) {
    constexpr std::size_t wanted = 20;
    const int most = 200 * steps;
    for (int i = 0; i < steps || (whole_ <= wanted && i < most); ++i) {
      if (testing::Test::HasFailure()) break;
      step();
    }
    finish();
  }

 private:
  struct Receive {
    std::vector<Extent> to;
    std::uint64_t pattern = 0;
    std::size_t announced = 0;
    std::size_t slot = 0;
  };

  std::size_t below(std::size_t limit) { return random_() % limit; }

  void step() {
    switch (below(8)) {
      case 0:
      case 1:
        return send();
      case 2:
      case 3:
        return answer();
      case 4:
        if (next_ > 0) pair_.sender->cancel_send(SendId(below(next_)));
        return;
      case 5:
        if (!receives_.empty()) pair_.receiver->cancel_receive(receives_.begin()->first);
        return;
      default:
        pair_.sender.poll(), pair_.receiver.poll();
        return check();
    }
  }

  /// From a slot that no open send uses; the header names the pattern.
  void send() {
    const std::size_t slot = below(slots);
    if (slot_users_[slot] && !pair_.sender.sent(*slot_users_[slot])) return;
    const SendId id(next_);
    const std::size_t bytes = below(3) == 0 ? below(5000) : below(slot_bytes - 64);
    const auto from = uneven(pair_.sender, slot * slot_bytes, bytes, 1 + below(40), random_());
    fill(from, id.value());
    const auto header = std::as_bytes(std::span(&next_, 1));
    ASSERT_TRUE(pair_.sender->send(id, pair_.to_receiver, header, from).has_value());
    slot_users_[slot] = id;
    ++next_;
  }

  void answer() {
    if (pair_.receiver.offers.empty()) return;
    const std::size_t index = below(pair_.receiver.offers.size());
    const auto chosen = pair_.receiver.offers.begin() + static_cast<std::ptrdiff_t>(index);
    if (below(5) == 0) {
      pair_.receiver->refuse(chosen->offer);
      pair_.receiver.offers.erase(chosen);
      return;
    }
    const std::size_t slot = below(slots);
    if (busy_[slot]) return;
    Receive receive;
    std::memcpy(&receive.pattern, chosen->header.data(), sizeof(receive.pattern));
    receive.announced = chosen->bytes;
    receive.slot = slot;
    const std::size_t room = below(4) == 0 ? below(slot_bytes - 64) : slot_bytes - 64;
    receive.to = uneven(pair_.receiver, slot * slot_bytes, room, 1 + below(40), random_());
    busy_[slot] = true;
    pair_.receiver->accept(chosen->offer, receive.to);
    receives_.emplace(chosen->offer, std::move(receive));
    pair_.receiver.offers.erase(chosen);
  }

  void check() {
    for (auto entry = receives_.begin(); entry != receives_.end();) {
      const auto status = pair_.receiver.received(entry->first);
      if (!status) {
        ++entry;
        continue;
      }
      const Receive& receive = entry->second;
      const std::size_t room = total(receive.to);
      if (*status == Status::ok || *status == Status::truncated) {
        EXPECT_EQ(*status == Status::truncated, receive.announced > room);
        EXPECT_TRUE(matches(receive.to, receive.pattern, std::min(room, receive.announced)));
        ++whole_;
      } else {
        EXPECT_EQ(*status, Status::cancelled);
      }
      busy_[receive.slot] = false;
      entry = receives_.erase(entry);
    }
  }

  static std::size_t total(const std::vector<Extent>& extents) {
    std::size_t sum = 0;
    for (const Extent& extent : extents) sum += extent.bytes;
    return sum;
  }

  void finish() {
    const bool ended = pair_.pump([&] {
      check();
      for (; !pair_.receiver.offers.empty(); pair_.receiver.offers.pop_front()) {
        pair_.receiver->refuse(pair_.receiver.offers.front().offer);
      }
      return receives_.empty() && pair_.sender.send_dones.size() == next_;
    });
    EXPECT_TRUE(ended) << receives_.size() << " receives and "
                       << next_ - pair_.sender.send_dones.size() << " sends are left";
    EXPECT_GT(whole_, 20u) << "the walk exercises too little";
    EXPECT_TRUE(pair_.sender.downs.empty() && pair_.receiver.downs.empty());
  }

  std::mt19937_64 random_;
  Pair pair_;
  std::uint64_t next_ = 0;
  std::size_t whole_ = 0;
  std::array<std::optional<SendId>, slots> slot_users_{};
  std::array<bool, slots> busy_{};
  std::map<OfferId, Receive> receives_;
};

class Random : public EveryTransport {};
BATON_EVERY_TRANSPORT(Random);

TEST_P(Random, SequencesOfCallsEndEveryOperationOnceWithTheRightBytes) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWalk(GetParam(), seed).run(2000);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace baton::transport::test

#include "baton/protocol/codec.h"

#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace baton::protocol {
namespace {

const AttemptKey key{{0x1122, 0x3344}, {2, 3}};
const Epoch here(0xabcdef);
const Epoch there(0x123456);

Work work() {
  Work work;
  work.prompt_ids = {1, 2, 49151};
  work.generated_ids = {7};
  work.sampling.max_tokens = 5;
  work.sampling.stop_ids = {2};
  work.sampling.logit_bias = {{3, -1.5f}};
  work.deadline_ms = 1000;
  work.prefix_root.emplace().bytes.fill(9);
  return work;
}

Grant grant() { return {99, 17, {{0, 4, 0, {{5, 2, 7}, {9, 1, 1}}, 3}}}; }

Tokens tokens() {
  Tokens out;
  out.key = key;
  out.first_index = 1;
  out.ids = {5, 6};
  out.digests = {{1, 2}, {3, 4}};
  out.logprobs = {{-0.5f, {{5, -0.5f}, {8, -2.0f}}}, {-1.0f, {}}};
  out.times.queue = Duration(12);
  out.cached_tokens = 48;
  return out;
}

std::vector<Message> one_of_each() {
  Hello hello;
  hello.role = Role::prefill;
  hello.node = NodeId("p-0");
  hello.epoch = here;
  hello.fingerprint = Digest256{};
  hello.transports = {"shm", "ucx"};
  HelloAck ack;
  ack.node = NodeId("d-0");
  ack.epoch = here;
  ack.fingerprint_fields = {{"layers", "30"}};
  ack.worker.prefill_suffix_tokens = 64;
  ack.worker.prefix_cache = false;
  ack.data = DataLink{"shm", "addr", {1, 2}, {3, 4}, "same host"};
  Commit commit;
  commit.key = key;
  commit.length = 4;
  commit.components = {{Component::k, 0, 1, 6144, 30, 0, 1, {1, 2}}};
  commit.tokens = tokens();
  Finished finished;
  finished.key = key;
  finished.facts = {1, 2, 3, 4, 5};
  HandoffEnded ended;
  ended.key = key;
  ended.facts.transport = "shm";
  ended.facts.held_units = 8;
  return {hello,
          ack,
          HelloRefused{Reason::version_mismatch, "no"},
          Reserve{key, work(), 5000, true, true},
          Prefill{key, work(), 5000, true},
          Target{key, NodeId("d-0"), there, grant()},
          Cancel{key},
          Release{key},
          Resume{key, 3},
          Heartbeat{5000},
          Peers{{{NodeId("d-0"), there, "127.0.0.1:1"}}},
          Unknown{{key}},
          BundleRequest{},
          Granted{key, grant()},
          Refused{key, Reason::no_space, "full", 100},
          tokens(),
          finished,
          Owned{key, 1},
          ended,
          Gone{key},
          Report{{1, 2, 3, 4, Duration(5), 6, 7}, true},
          Inventory{{key, key}},
          BundlePart{0, 2, "bytes"},
          commit,
          Accepted{key},
          CommitRefused{key, Reason::digest_mismatch, "bad", {{Component::v, 3, 1, 2}}}};
}

TEST(Codec, EveryMessageSurvivesTheRoundTripByteForByte) {
  const std::vector<Message> messages = one_of_each();
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    ASSERT_EQ(messages[i].index(), i) << "one_of_each() is in the order of the variant";
    const std::string bytes = encode({here, there, messages[i]});
    const Result<Envelope> back = decode(bytes);
    ASSERT_TRUE(back.has_value()) << name(messages[i]) << ": " << back.error().message();
    EXPECT_EQ(back->from, here);
    EXPECT_EQ(back->to, there);
    EXPECT_EQ(back->message.index(), i);
    EXPECT_EQ(encode(*back), bytes) << name(messages[i]);
  }
}

TEST(Codec, HellosCarryTheirEpoch) {
  const std::vector<Message> messages = one_of_each();
  EXPECT_EQ(std::get<Hello>(decode(encode({here, there, messages[0]}))->message).epoch, here);
  EXPECT_EQ(std::get<HelloAck>(decode(encode({here, there, messages[1]}))->message).epoch, here);
}

TEST(Codec, FieldsArriveWithTheirValues) {
  const Result<Envelope> back = decode(encode({here, there, Reserve{key, work(), 5000}}));
  const Reserve& reserve = std::get<Reserve>(back->message);
  EXPECT_EQ(reserve.key, key);
  EXPECT_EQ(reserve.work, work());
  const Result<Envelope> granted = decode(encode({here, there, Granted{key, grant()}}));
  EXPECT_EQ(std::get<Granted>(granted->message).grant, grant());
  const Result<Envelope> sampled = decode(encode({here, there, tokens()}));
  EXPECT_EQ(std::get<Tokens>(sampled->message).cached_tokens, 48);
}

TEST(Codec, R26_TruncatedAndMutatedMessagesAreTypedErrorsOrOtherMessages) {
  std::mt19937 random(7);
  for (const Message& message : one_of_each()) {
    const std::string bytes = encode({here, there, message});
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      const Result<Envelope> result = decode(bytes.substr(0, cut));
      if (!result) {
        EXPECT_EQ(result.error().reason(), Reason::protocol_violation);
      }
    }
    for (int round = 0; round < 500; ++round) {
      std::string changed = bytes;
      changed[random() % changed.size()] = static_cast<char>(random());
      const Result<Envelope> result = decode(changed);
      if (!result) {
        EXPECT_EQ(result.error().reason(), Reason::protocol_violation);
      }
    }
  }
}

TEST(Codec, R7_LimitsAreCheckedBeforeTheNativeFormIsMade) {
  Work big = work();
  big.prompt_ids.assign(max_ids + 1, 1);
  EXPECT_FALSE(decode(encode({here, there, Reserve{key, big, 1}})).has_value());
  EXPECT_FALSE(decode(std::string(max_message_bytes + 1, '\0')).has_value());
  Work empty = work();
  empty.prompt_ids.clear();
  EXPECT_FALSE(decode(encode({here, there, Prefill{key, empty, 1, true}})).has_value());
  Work endless = work();
  endless.sampling.temperature = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(decode(encode({here, there, Prefill{key, endless, 1, true}})).has_value());
}

TEST(Codec, R3_NumbersThatDecideSomethingAreRefusedOutsideTheirRange) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const auto accepted = [](const Message& message) {
    return decode(encode({here, there, message})).has_value();
  };
  for (const std::int64_t lease_ms : {least, std::int64_t{-1}, std::int64_t{0}, most}) {
    EXPECT_FALSE(accepted(Heartbeat{lease_ms})) << lease_ms;
    EXPECT_FALSE(accepted(Reserve{key, work(), lease_ms})) << lease_ms;
    EXPECT_FALSE(accepted(Prefill{key, work(), lease_ms, true})) << lease_ms;
  }
  Work endless = work();
  endless.deadline_ms = most;
  EXPECT_FALSE(accepted(Prefill{key, endless, 5000, true}));
  Tokens late = tokens();
  late.first_index = std::numeric_limits<std::int32_t>::max();
  EXPECT_FALSE(accepted(late));
  EXPECT_FALSE(accepted(Resume{key, std::numeric_limits<std::int32_t>::max()}));
  EXPECT_FALSE(accepted(Owned{key, -1}));
}

TEST(Codec, R3_NumbersThatAreOnlyCountedAreCut) {
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const auto round_trip = [](const Message& message) {
    return decode(encode({here, there, message}))->message;
  };
  Tokens timed = tokens();
  timed.times.queue = Duration::max();
  timed.times.prefill = Duration(least);
  const PhaseTimes times = std::get<Tokens>(round_trip(timed)).times;
  EXPECT_EQ(times.prefill, Duration{});
  EXPECT_LT(times.queue, Duration::max() / 100);
  Report report;
  report.load.free_tokens = least;
  report.load.capacity_tokens = std::numeric_limits<std::int64_t>::max();
  const Load load = std::get<Report>(round_trip(report)).load;
  EXPECT_EQ(load.free_tokens, 0);
  EXPECT_LT(load.capacity_tokens, std::numeric_limits<std::int64_t>::max() / 100);
}

TEST(Codec, AnUnknownKindIsAnErrorAndUnknownFieldsAreDropped) {
  EXPECT_FALSE(decode("").has_value());
  // Field 1000 of Envelope, varint 1: a newer peer's addition.
  const std::string bytes = encode({here, there, Gone{key}}) + "\xc0\x3e\x01";
  ASSERT_TRUE(decode(bytes).has_value());
  EXPECT_EQ(std::get<Gone>(decode(bytes)->message).key, key);
}

}  // namespace
}  // namespace baton::protocol

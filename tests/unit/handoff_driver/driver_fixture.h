// Two drivers, one that prefills and one that decodes, with a cache in between.
#pragma once

#include <algorithm>

#include <gmock/gmock.h>

#include "baton/transport/factory/factory.h"
#include "baton/transport/fault/fault.h"

#include "driver_side.h"

namespace baton::handoff {

inline constexpr std::int64_t length = 70;  // four full units and a partial one, in three blocks
inline constexpr int units = 5;
inline const std::vector<std::int32_t> source_blocks = {0, 1, 2};
inline const std::vector<std::int32_t> target_blocks = {6, 3, 4};
inline const LinkId link_id(1);
inline const Epoch decode_epoch(77);

class DriverTest : public testing::TestWithParam<const char*> {
 protected:
  ~DriverTest() override {
    if (prefill) prefill->stop();
    if (decode) decode->stop();
  }

  static std::unique_ptr<transport::Transport> make(const transport::FaultPolicy& policy) {
    transport::Options options;
    options.bind_address = "127.0.0.1:0";
    auto made = transport::make_transport(GetParam(), options);
    EXPECT_TRUE(made.has_value());
    return std::make_unique<transport::FaultTransport>(std::move(*made), policy);
  }
  void start(const transport::FaultPolicy& at_prefill = {},
             const transport::FaultPolicy& at_decode = {}) {
    start(make(at_prefill), make(at_decode));
  }
  void start(std::unique_ptr<transport::Transport> at_prefill,
             std::unique_ptr<transport::Transport> at_decode) {
    prefill = std::make_unique<DriverSide>(std::move(at_prefill), Epoch(66), true, patience);
    decode = std::make_unique<DriverSide>(std::move(at_decode), decode_epoch, true, patience);
    connections_ = 0;
    forward(*prefill, *decode);
    forward(*decode, *prefill);
    connect();
  }
  static void forward(DriverSide& from, DriverSide& to) {
    from.pair_with([&to](LinkId link, protocol::Message message) {
      EXPECT_TRUE(to.driver().post(PairMessage{link, std::move(message), monotonic_now()}));
    });
  }
  void connect() {
    const RequestId token{1, 2};
    const RequestId secret{3, 4};
    EXPECT_TRUE(decode->driver().post(ExpectLink{link_id, decode->transport(), token, secret}));
    const std::size_t connections = ++connections_;
    ASSERT_TRUE(decode->wait_for([&](const auto& s) { return s.expected.size() == connections; }));
    protocol::DataLink data;
    data.transport = decode->transport();
    data.address = decode->driver().addresses()[0].second;
    data.token = token;
    data.secret = secret;
    EXPECT_TRUE(prefill->driver().post(ConnectLink{link_id, NodeId("d"), decode_epoch, data}));
  }

  /// Every unit of the source has other bytes.
  void fill() {
    for (int layer = 0; layer < arena_layers; ++layer) {
      for (tensor::KvPart part : {tensor::KvPart::k, tensor::KvPart::v}) {
        for (int i = 0; i < units; ++i) {
          std::byte* at =
              prefill->unit(layer, part, source_blocks[i / block_units], i % block_units);
          for (std::size_t b = 0; b < prefill->unit_bytes(); ++b) {
            at[b] = static_cast<std::byte>(b * 31 + static_cast<std::size_t>(i) * 7 +
                                           static_cast<std::size_t>(layer) * 3 +
                                           static_cast<std::size_t>(part) * 101);
          }
        }
      }
    }
  }
  bool arrived() {
    for (int layer = 0; layer < arena_layers; ++layer) {
      for (tensor::KvPart part : {tensor::KvPart::k, tensor::KvPart::v}) {
        for (int i = 0; i < units; ++i) {
          const auto index = static_cast<std::size_t>(i / block_units);
          const std::byte* from = prefill->unit(layer, part, source_blocks[index], i % block_units);
          const std::byte* to = decode->unit(layer, part, target_blocks[index], i % block_units);
          if (std::memcmp(from, to, prefill->unit_bytes()) != 0) return false;
        }
      }
    }
    return true;
  }

  void begin() {
    fill();
    prefill->command(
        BeginSource{source, key, length, {{block_units, 0, source_blocks}}, monotonic_now()});
  }
  void layer(std::uint32_t index, std::int64_t positions = length) {
    prefill->command(LayerReady{source, index, positions, monotonic_now()});
  }
  void commit() {
    CommitSource each;
    each.source = source;
    each.tokens.ids = {7};
    each.sampled_at = monotonic_now();
    prefill->command(std::move(each));
  }
  protocol::Grant grant(std::uint64_t id) const {
    return {id, length, {{0, block_units, 0, {{6, 1, 9}, {3, 2, 9}}}}};
  }
  void open(std::uint64_t id) {
    decode->command(OpenGrant{key, grant(id), {{block_units, 0, target_blocks}}});
  }
  void target(std::uint64_t id) {
    prefill->command(SetTarget{source, key, NodeId("d"), decode_epoch, grant(id)});
  }
  void whole(std::uint64_t id) {
    begin();
    open(id);
    target(id);
    layer(0);
    layer(1);
    commit();
  }
  /// Both sides give everything back.
  void expect_all_let_go(std::uint64_t id) {
    prefill->command(AbortSource{source});
    decode->command(CloseGrant{id});
    EXPECT_TRUE(prefill->wait_for([&](const auto& s) { return s.idle.size() == 1; }));
    EXPECT_TRUE(decode->wait_for([&](const auto& s) {
      return std::find(s.closed.begin(), s.closed.end(), id) != s.closed.end();
    }));
  }

  Patience patience;
  std::unique_ptr<DriverSide> prefill;
  std::unique_ptr<DriverSide> decode;
  protocol::AttemptKey key{{1, 1}, {1, 1}};
  SourceId source{5};

 private:
  std::size_t connections_ = 0;
};

}  // namespace baton::handoff

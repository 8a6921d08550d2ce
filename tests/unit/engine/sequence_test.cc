#include "baton/engine/core/sequence.h"

#include <gtest/gtest.h>

#include "core_fixture.h"

namespace baton::engine {
namespace {

kvcache::BlockPools small_pools() {
  return kvcache::BlockPools({.block_positions = 16, .groups = {{.blocks = 8}}});
}

Reason refusal(SequenceSpec spec) {
  const auto sequence = Sequence::for_prefill(std::move(spec), test_limits);
  return sequence.has_error() ? sequence.error().reason() : Reason::internal;
}

TEST(Sequence, APromptOfThreeDecodesFromCacheThreeToFour) {
  kvcache::BlockPools pools = small_pools();
  kvcache::SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {0, 3}));
  Sequence sequence = Sequence::for_decode(spec_of(3, {7}), test_limits, 3, blocks, pools).value();
  EXPECT_TRUE(blocks.empty());
  EXPECT_EQ(sequence.phase(), Phase::decode);
  EXPECT_EQ(sequence.cached(), 3);
  sequence.advance(1, 1, pools);
  EXPECT_EQ(sequence.cached(), 4);
}

TEST(Sequence, DecodeAtAnyOtherLengthIsRefusedAndTheBlocksStayWithTheCaller) {
  kvcache::BlockPools pools = small_pools();
  kvcache::SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {0, 5}));
  for (const std::int64_t cached : {0, 1, 2, 4, 5}) {
    const auto sequence = Sequence::for_decode(spec_of(3, {7}), test_limits, cached, blocks, pools);
    ASSERT_TRUE(sequence.has_error()) << cached;
    EXPECT_EQ(sequence.error().reason(), Reason::length_mismatch);
  }
  EXPECT_FALSE(blocks.empty());
  pools.release(blocks);
}

TEST(Sequence, DecodeWithoutATokenToFeedIsRefused) {
  kvcache::BlockPools pools = small_pools();
  kvcache::SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {0, 3}));
  EXPECT_EQ(Sequence::for_decode(spec_of(3), test_limits, 2, blocks, pools).error().reason(),
            Reason::length_mismatch);
}

TEST(Sequence, DecodeOnBlocksThatDoNotCoverTheLengthIsRefused) {
  kvcache::BlockPools pools = small_pools();
  kvcache::SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {0, 16}));
  EXPECT_EQ(Sequence::for_decode(spec_of(17, {7}), test_limits, 17, blocks, pools).error().reason(),
            Reason::length_mismatch);
}

TEST(Sequence, DecodeOnAWindowThatBeginsTooLateIsRefused) {
  kvcache::BlockPools pools(
      {.block_positions = 16, .groups = {{.blocks = 8}, {.blocks = 8, .window = 20}}});
  kvcache::SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {.next = 67, .end = 68}));
  EXPECT_EQ(Sequence::for_decode(spec_of(60, {7}), test_limits, 60, blocks, pools).error().reason(),
            Reason::length_mismatch);
  EXPECT_TRUE(Sequence::for_decode(spec_of(67, {7}), test_limits, 67, blocks, pools).has_value());
}

TEST(Sequence, API22PromptAndMaxTokensMayFillTheContextAndNoMore) {
  SequenceSpec spec = spec_of(950);
  EXPECT_TRUE(Sequence::for_prefill(spec, test_limits).has_value());
  spec = spec_of(951);
  const auto refused = Sequence::for_prefill(spec, test_limits);
  EXPECT_EQ(refused.error().reason(), Reason::context_length_exceeded);
  EXPECT_NE(refused.error().message().find("maximum context length is 1000 tokens"),
            std::string::npos);
  EXPECT_NE(refused.error().message().find("951"), std::string::npos);
}

TEST(Sequence, API20WithoutMaxTokensTheContextIsTheLimit) {
  SequenceSpec spec = spec_of(990);
  spec.params.max_tokens.reset();
  EXPECT_EQ(Sequence::for_prefill(spec, test_limits).value().max_tokens(), 10);
  spec = spec_of(1000);
  spec.params.max_tokens.reset();
  EXPECT_EQ(refusal(spec), Reason::context_length_exceeded);
}

TEST(Sequence, IdsOutsideTheVocabularyAreRefused) {
  for (const TokenId id : {-1, 100}) {
    SequenceSpec spec = spec_of(3);
    spec.prompt[1] = id;
    EXPECT_EQ(refusal(spec), Reason::invalid_request);
    spec = spec_of(3, {id});
    EXPECT_EQ(refusal(spec), Reason::invalid_request);
  }
  EXPECT_EQ(refusal(spec_of(0)), Reason::invalid_request);
}

TEST(Sequence, API21MaxTokensBelowOneIsRefused) {
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN}) {
    SequenceSpec spec = spec_of(3);
    spec.params.max_tokens = value;
    EXPECT_EQ(refusal(spec), Reason::invalid_request);
  }
  SequenceSpec spec = spec_of(3);
  spec.params.max_tokens = INT64_MAX;
  EXPECT_EQ(refusal(spec), Reason::context_length_exceeded);
}

TEST(Sequence, R19ParametersOutOfRangeAreRefusedByName) {
  const auto message = [](auto change) {
    SamplingParams params;
    change(params);
    const auto result = validate(params, 100);
    return result.has_error() ? result.error().message() : std::string();
  };
  EXPECT_EQ(message([](SamplingParams&) {}), "");
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(message([&](auto& p) { p.temperature = nan; }).find("temperature"), std::string::npos);
  EXPECT_NE(message([&](auto& p) { p.top_p = 0; }).find("top_p"), std::string::npos);
  EXPECT_NE(message([&](auto& p) { p.top_k = -1; }).find("top_k"), std::string::npos);
  EXPECT_NE(message([&](auto& p) { p.min_p = 1.5f; }).find("min_p"), std::string::npos);
  EXPECT_NE(message([&](auto& p) { p.repetition_penalty = 0; }).find("repetition"),
            std::string::npos);
  EXPECT_NE(message([&](auto& p) {
              p.logit_bias = {{100, 1}};
            }).find("logit_bias"),
            std::string::npos);
  EXPECT_NE(message([&](auto& p) { p.stop_token_ids = {-1}; }).find("stop_token_ids"),
            std::string::npos);
  EXPECT_NE(message([&](auto& p) { p.logprobs = 21; }).find("logprobs"), std::string::npos);
}

/// Prefills `spec` in one go and appends `ids` while the sequence lives.
std::optional<Finish> run(SequenceSpec spec, const std::vector<TokenId>& ids,
                          std::int64_t* count = nullptr) {
  kvcache::BlockPools pools = small_pools();
  Sequence sequence = Sequence::for_prefill(std::move(spec), test_limits).value();
  for (const TokenId id : ids) {
    if (!sequence.reserve(pools, sequence.length())) return std::nullopt;
    sequence.advance(sequence.length() - sequence.cached(), 1, pools);
    if (sequence.append(id)) break;
  }
  if (count != nullptr) *count = sequence.generated_count();
  return sequence.finish();
}

TEST(Sequence, API01AndAPI35StopRulesHoldFromTheFirstTokenAndAnEndIdWinsOverLength) {
  SequenceSpec spec = spec_of(3);
  spec.end_ids = {5};
  spec.params.max_tokens = 1;
  EXPECT_EQ(run(spec, {7}), Finish::length);
  EXPECT_EQ(run(spec, {5}), Finish::stop);
  spec.params.max_tokens = 3;
  std::int64_t count = 0;
  EXPECT_EQ(run(spec, {7, 8, 9, 10}, &count), Finish::length);
  EXPECT_EQ(count, 3);
  EXPECT_EQ(run(spec, {7, 8, 5}, &count), Finish::stop);
  spec.params.ignore_eos = true;
  EXPECT_EQ(run(spec, {5, 5, 5}), Finish::length);
  spec.params.stop_token_ids = {6};
  EXPECT_EQ(run(spec, {5, 6, 5}, &count), Finish::stop);
  EXPECT_EQ(count, 2);
}

TEST(Sequence, EndIdsAreMaskedUntilMinTokens) {
  SequenceSpec spec = spec_of(3, {1});
  spec.end_ids = {9, 4};
  spec.params.min_tokens = 2;
  const Sequence young = Sequence::for_prefill(spec, test_limits).value();
  EXPECT_EQ(std::vector<TokenId>(young.masked_ids().begin(), young.masked_ids().end()),
            (std::vector<TokenId>{4, 9}));
  spec.generated = {1, 2};
  const Sequence old = Sequence::for_prefill(spec, test_limits).value();
  EXPECT_TRUE(old.masked_ids().empty());
}

TEST(Sequence, PenaltyCountsAfterAResumeEqualThoseOfAnUninterruptedRun) {
  SequenceSpec spec = spec_of(3);
  spec.prompt = {5, 5, 8};
  spec.params.presence_penalty = 1;
  kvcache::BlockPools pools = small_pools();
  Sequence straight = Sequence::for_prefill(spec, test_limits).value();
  for (const TokenId id : {8, 2, 8}) {
    ASSERT_TRUE(straight.reserve(pools, straight.length()));
    straight.advance(straight.length() - straight.cached(), 1, pools);
    straight.append(id);
  }
  spec.generated = {8, 2, 8};
  const Sequence resumed = Sequence::for_prefill(spec, test_limits).value();
  ASSERT_EQ(straight.seen().size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(straight.seen()[i].id, resumed.seen()[i].id);
    EXPECT_EQ(straight.seen()[i].generated, resumed.seen()[i].generated);
  }
  EXPECT_EQ(straight.seen()[2].generated, 2);
}

TEST(Sequence, AnEndedSequenceIsNotResumed) {
  SequenceSpec spec = spec_of(3, {1, 2});
  spec.params.max_tokens = 2;
  EXPECT_EQ(refusal(spec), Reason::invalid_request);
}

TEST(Sequence, RemovingASequenceFreesItsBlocksAndMayBeRepeated) {
  kvcache::BlockPools pools = small_pools();
  SequenceTable table;
  const SequenceId id = add_decoding(table, pools, 20);
  EXPECT_EQ(pools.available_blocks(0), 6);
  table.remove(id, pools);
  table.remove(id, pools);
  EXPECT_EQ(pools.available_blocks(0), 8);
}

}  // namespace
}  // namespace baton::engine

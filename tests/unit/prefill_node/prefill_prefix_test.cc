// What a prefill node takes from its prefix cache, and what it says about that.
#include "prefill_fixture.h"

namespace baton::prefill_node {
namespace {

class PrefillPrefix : public PrefillFixture {
 protected:
  /// `same` ids that every prompt has, then ones of its own.
  void prompt(std::uint64_t request, std::size_t same, std::size_t own, bool shares = true) {
    protocol::Prefill message{key(request), work(same), 5000, true};
    message.work.prompt_ids.insert(message.work.prompt_ids.end(), own,
                                   static_cast<TokenId>(10 + request));
    if (!shares) message.work.prefix_root.reset();
    say(message);
  }
  std::int64_t run_rows() {
    std::int64_t rows = 0;
    for (begin_step(); !plan.empty(); begin_step()) {
      for (const engine::PrefillRows& each : plan.prefill) rows += each.count;
      layer(0);
      layer(1);
      end_step();
    }
    return rows;
  }
  /// The rows that a prompt took until its first token; then it is handed over and gone.
  std::int64_t compute(std::uint64_t request, std::size_t same, std::size_t own,
                       bool shares = true) {
    prompt(request, same, own, shares);
    const std::int64_t rows = run_rows();
    accept(key(request));
    idle(source());
    say(protocol::Release{key(request)});
    return rows;
  }
  protocol::Tokens last_tokens() const { return told<protocol::Tokens>().back(); }
};

TEST_F(PrefillPrefix, PFX03OfARepeatedPromptOneBlockIsComputedAlsoAfterItWasHandedOver) {
  EXPECT_EQ(compute(1, 100, 0), 100);
  EXPECT_EQ(last_tokens().cached_tokens, 0);
  for (std::uint64_t request = 2; request < 6; ++request) {
    EXPECT_EQ(compute(request, 100, 0), 4);
    EXPECT_EQ(last_tokens().cached_tokens, 96);
  }
  expect_baseline();
}

TEST_F(PrefillPrefix, MET09QueriesAreWholePromptsAndHitsWhatWasTaken) {
  compute(1, 64, 16);
  compute(2, 64, 16);
  std::int64_t query = 0;
  std::int64_t hit = 0;
  for (const worker::PrefixLookedUp& each : lookups) {
    query += each.query_tokens;
    hit += each.hit_tokens;
  }
  EXPECT_EQ(query, 160);
  EXPECT_EQ(hit, 64);
}

TEST_F(PrefillPrefix, MET01TellsWhereAPromptCameFrom) {
  compute(1, 64, 16);
  compute(2, 64, 16);
  ASSERT_EQ(prompts.size(), 2U);
  EXPECT_EQ(prompts[0].computed, 80);
  EXPECT_EQ(prompts[0].cached, 0);
  EXPECT_EQ(prompts[1].computed, 16);
  EXPECT_EQ(prompts[1].cached, 64);
}

TEST_F(PrefillPrefix, PFX02AHitOfAnyLengthIsOfferedWithTheRestUpToTheEnd) {
  for (std::size_t same = 0; same <= 100; same += 20) {
    core_ = PrefillCore(worker::small_limits(), worker::small_pools(16));
    to_driver.clear();
    compute(1, 100, 0);
    prompt(2, same, 100 - same);
    const std::int64_t rows = run_rows();
    const auto hit = static_cast<std::int64_t>(std::min<std::size_t>(same, 99) / 16 * 16);
    EXPECT_EQ(rows, 100 - hit);
    EXPECT_EQ(commands<handoff::LayerReady>().back().positions, 100);
    // The sender is given all blocks of the prompt, those of the hit too.
    for (const auto& each : to_driver) {
      if (const auto* begin = std::get_if<handoff::BeginSource>(&each)) {
        EXPECT_EQ(begin->blocks[0].first_block, 0U);
        EXPECT_EQ(begin->blocks[0].blocks.size(), 7U);
      }
    }
  }
}

TEST_F(PrefillPrefix, ARequestWithoutARootTakesAndLeavesNothing) {
  core_ = PrefillCore(worker::small_limits(), worker::small_pools(16));
  compute(1, 100, 0);
  EXPECT_EQ(compute(2, 100, 0, false), 100);
  compute(3, 80, 0, false);
  EXPECT_EQ(lookups.size(), 1U);
  EXPECT_EQ(core_.pools().counts(0).cached, 6);
}

TEST_F(PrefillPrefix, SwitchedOffItKeepsNothing) {
  worker::NodeLimits limits = worker::small_limits();
  limits.prefix_cache = false;
  core_ = PrefillCore(limits, worker::small_pools(8));
  compute(1, 100, 0);
  EXPECT_EQ(compute(2, 100, 0), 100);
  EXPECT_EQ(core_.pools().counts(0).cached, 0);
  EXPECT_TRUE(lookups.empty());
}

TEST_F(PrefillPrefix, AQueuedPromptHoldsNothingOfThePrefixThatItWaitsFor) {
  compute(1, 100, 0);
  prompt(2, 0, 110);  // takes seven of eight blocks
  begin_step();
  layer(0);
  layer(1);
  end_step();
  prompt(3, 100, 20);
  begin_step();
  EXPECT_EQ(plan.prefill.size(), 1U);
  layer(0);
  layer(1);
  end_step();
  EXPECT_EQ(core_.pools().available_blocks(0), 1);
}

}  // namespace
}  // namespace baton::prefill_node

// What travels with tokens: lists that stay in step, in messages that fit a frame.
#include "baton/protocol/codec.h"

#include "decode_fixture.h"

namespace baton::decode_node {
namespace {

constexpr std::int32_t many = 2'500;
constexpr std::size_t alternatives = 20;

worker::NodeLimits long_limits() {
  worker::NodeLimits limits = worker::small_limits();
  limits.model.context_length = 4'000;
  limits.model.vocabulary = 100;
  return limits;
}

class TokenFacts : public DecodeFixture {
 protected:
  worker::NodeCore& core() override { return long_core_; }

  /// Answers the last grant with this first token.
  void commit(protocol::Tokens first) {
    const handoff::OpenGrant open = commands<handoff::OpenGrant>().back();
    protocol::Commit out;
    out.key = open.key;
    out.grant = open.grant.id;
    out.length = open.grant.length;
    first.key = open.key;
    first.ids = {worker::sampled_id};
    out.tokens = std::move(first);
    event(handoff::CommitVerified{handoff::LinkId(1), out});
  }

  DecodeCore long_core_{long_limits(), worker::small_pools(200), 100};
};

TEST_F(TokenFacts, R3_AFirstTokenWithFactsThatNobodyAskedForIsRefused) {
  reserve(key(1));
  protocol::Tokens first;
  first.digests = {{1, 2}};
  commit(first);
  ASSERT_EQ(told_pair<protocol::CommitRefused>().size(), 1U);
  EXPECT_EQ(told_pair<protocol::CommitRefused>()[0].reason, Reason::protocol_violation);
  EXPECT_TRUE(told<protocol::Owned>().empty());
}

TEST_F(TokenFacts, R3_AFirstTokenWithoutTheFactsThatWereAskedForIsRefused) {
  protocol::Work asked = work(20, 5);
  asked.sampling.logprobs = 1;
  say(protocol::Reserve{key(1), asked, 5000});
  commit({});
  EXPECT_EQ(told_pair<protocol::CommitRefused>().size(), 1U);
}

TEST_F(TokenFacts, R26_AllTokensOfALongAnswerAreRepeatedInMessagesThatFitAFrame) {
  protocol::Work asked = work(20, many);
  asked.sampling.logits_digest = true;
  asked.sampling.logprobs = static_cast<std::int32_t>(alternatives);
  say(protocol::Reserve{key(1), asked, 5000});
  protocol::Tokens first;
  first.digests = {{1, 2}};
  first.logprobs = {{-0.5f, {}}};
  commit(first);
  engine::TokenEvent token;
  token.logits_digest = Digest128{~0ULL, ~0ULL};
  token.logprobs.emplace();
  token.logprobs->top.assign(alternatives, {99, -1.5f});
  for (std::int32_t i = 1; i < many; ++i) {
    begin_step();
    token.sequence = plan.decode.at(0).sequence;
    engine::Sequence& sequence = *core().table().find(token.sequence);
    sequence.advance(1, static_cast<std::uint64_t>(i), core().pools());
    token.id = worker::sampled_id;
    token.finish = sequence.append(token.id);
    engine::StepEvents events;
    events.tokens = {token};
    plan = {};
    core().step_done(events, now);
  }
  core().take_effects();
  forget();
  say(protocol::Resume{key(1), 0});
  EXPECT_EQ(told_ids().size(), static_cast<std::size_t>(many));
  std::int32_t next = 0;
  for (const protocol::Tokens& part : told<protocol::Tokens>()) {
    EXPECT_EQ(part.first_index, next);
    EXPECT_EQ(part.digests.size(), part.ids.size());
    EXPECT_EQ(part.logprobs.size(), part.ids.size());
    EXPECT_LT(protocol::encode({Epoch(1), Epoch(2), part}).size(), protocol::max_message_bytes / 2);
    next += static_cast<std::int32_t>(part.ids.size());
  }
}

TEST_F(TokenFacts, ATokensFactsAreThoseOfItsOwnRow) {
  protocol::Work asked = work(20, 5);
  asked.sampling.logits_digest = true;
  asked.sampling.logprobs = 2;
  say(protocol::Reserve{key(1), asked, 5000});
  protocol::Tokens first;
  first.digests = {{1, 2}};
  first.logprobs = {{-0.5F, {{8, -0.75F}}}};
  commit(first);
  EXPECT_EQ(told<protocol::Tokens>().back().digests, first.digests);
  EXPECT_EQ(told<protocol::Tokens>().back().logprobs, first.logprobs);
  engine::TokenEvent token;
  token.id = 5;
  token.logits_digest = Digest128{3, 4};
  token.logprobs = engine::Logprobs{{5, -0.25F}, {{5, -0.25F}, {6, -1.5F}}};
  begin_step();
  token.sequence = plan.decode.at(0).sequence;
  engine::Sequence& sequence = *core().table().find(token.sequence);
  sequence.advance(1, 1, core().pools());
  token.finish = sequence.append(token.id);
  engine::StepEvents events;
  events.tokens = {token};
  core().step_done(events, now);
  collect();
  const protocol::Tokens told_token = told<protocol::Tokens>().back();
  EXPECT_EQ(told_token.first_index, 1);
  EXPECT_THAT(told_token.ids, testing::ElementsAre(5));
  EXPECT_THAT(told_token.digests, testing::ElementsAre(Digest128{3, 4}));
  const protocol::Tokens::Logprob wanted{-0.25F, {{5, -0.25F}, {6, -1.5F}}};
  EXPECT_THAT(told_token.logprobs, testing::ElementsAre(wanted));
}

}  // namespace
}  // namespace baton::decode_node

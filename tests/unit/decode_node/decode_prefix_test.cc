// What a decode node holds of a prompt that was handed over or continued here before.
#include "decode_fixture.h"

namespace baton::decode_node {
namespace {

class DecodePrefix : public DecodeFixture {
 protected:
  /// Blocks of one unit: 8 of them see everything; 8 see the last 40 positions.
  DecodePrefix() { core_ = DecodeCore(worker::small_limits(), pools(), 100); }
  static kvcache::PoolConfig pools() {
    kvcache::PoolConfig config = worker::small_pools(12);
    config.groups.push_back({12, 40});
    return config;
  }
  /// Handed over, decoded to its end and released.
  void serve(std::uint64_t request, std::size_t prompt, std::int32_t max_tokens = 2) {
    reserve(key(request), prompt, max_tokens);
    verify(key(request));
    closed();
    while (told<protocol::Finished>().empty()) step();
    say(protocol::Release{key(request)});
    expect_baseline();
    forget();
  }
  protocol::Grant grant_for(std::uint64_t request, std::size_t prompt) {
    forget();
    reserve(key(request), prompt);
    const auto granted = told<protocol::Granted>();
    EXPECT_EQ(granted.size(), 1U);
    return granted.empty() ? protocol::Grant{} : granted[0].grant;
  }
  static std::vector<std::uint32_t> held(const protocol::Grant& grant) {
    std::vector<std::uint32_t> out;
    for (const protocol::GrantGroup& group : grant.groups) out.push_back(group.held_units);
    return out;
  }
};

using testing::ElementsAre;
using testing::FieldsAre;

TEST_F(DecodePrefix, AGrantHoldsTheWholeBlocksThatWereHandedOverBefore) {
  serve(1, 70);
  EXPECT_GT(core_.pools().counts(0).cached, 0);
  const protocol::Grant grant = grant_for(2, 70);
  // Four whole units; the next query sees positions from 31 on, whose first unit is the second.
  EXPECT_THAT(held(grant), ElementsAre(4, 3));
  EXPECT_EQ(grant.groups[1].first_unit, 1U);
  EXPECT_EQ(commands<handoff::OpenGrant>()[0].grant, grant);
  EXPECT_EQ(lookups.back().query_tokens, 70);
  EXPECT_EQ(lookups.back().hit_tokens, 64);
}

TEST_F(DecodePrefix, MET01TellsWhatOfAPromptWasReceived) {
  serve(1, 70);
  grant_for(2, 70);
  verify(key(2));
  EXPECT_THAT(prompts, ElementsAre(FieldsAre(0, 0, 70), FieldsAre(0, 64, 6)));
}

TEST_F(DecodePrefix, APromptOfWholeBlocksIsHeldToItsEnd) {
  serve(1, 64);
  EXPECT_THAT(held(grant_for(2, 64)), ElementsAre(4, 3));
  verify(key(2));
  begin_step();
  ASSERT_EQ(plan.decode.size(), 1U);
  EXPECT_EQ(plan.decode[0].position, 64);
  const engine::Sequence& sequence = *core_.table().find(plan.decode[0].sequence);
  const std::int32_t written = sequence.blocks().group(0).blocks().at(4);
  EXPECT_FALSE(core_.pools().is_indexed(0, written));
}

TEST_F(DecodePrefix, NothingOfAPartialBlockIsShared) {
  serve(1, 20);
  EXPECT_THAT(held(grant_for(2, 20)), ElementsAre(1, 1));
  EXPECT_THAT(held(grant_for(3, 15)), ElementsAre(0, 0));
}

TEST_F(DecodePrefix, WhatWasGeneratedIsHeldForTheNextTurn) {
  serve(1, 20, 30);  // ends with 20 + 29 positions in the cache
  protocol::Work next = work(20);
  next.prompt_ids.insert(next.prompt_ids.end(), 30, worker::sampled_id);
  next.prompt_ids.insert(next.prompt_ids.end(), 10, 5);
  say(protocol::Reserve{key(2), next, 5000});
  EXPECT_THAT(held(told<protocol::Granted>()[0].grant), ElementsAre(3, 2));
}

TEST_F(DecodePrefix, NothingIsIndexedBeforeTheCommitIsVerified) {  // P2
  reserve(key(1), 70);
  EXPECT_THAT(held(grant_for(2, 70)), ElementsAre(0, 0));
}

TEST_F(DecodePrefix, OthersContinueWhatAGrantHoldsAndItStaysWhenTheyEnd) {
  reserve(key(1), 40, 30);
  verify(key(1));
  closed();
  const protocol::Grant grant = grant_for(2, 40);
  EXPECT_THAT(held(grant), ElementsAre(2, 2));
  say(protocol::Cancel{key(1)});
  const auto block = static_cast<std::int32_t>(grant.groups[0].slots[0].first);
  const kvcache::BlockRef ref{block, grant.groups[0].slots[0].generation};
  EXPECT_TRUE(core_.pools().check(0, ref).has_value());
  say(protocol::Cancel{key(2)});
  EXPECT_TRUE(core_.pools().check(0, ref).has_value()) << "pinned until the grant is closed";
  event(handoff::GrantClosed{grant.id});
  EXPECT_FALSE(core_.pools().check(0, ref).has_value());
  expect_baseline();
}

TEST_F(DecodePrefix, WhatDiffersIsForgottenAndTheNextGrantHoldsNothing) {
  serve(1, 70);
  const protocol::Grant grant = grant_for(2, 70);
  event(handoff::HeldUnitsDiffer{grant.id});
  forget();
  reserve(key(2, 1, 2), 70);
  EXPECT_THAT(held(told<protocol::Granted>()[0].grant), ElementsAre(0, 0));
  say(protocol::Cancel{key(2, 1, 2)});
  event(handoff::GrantClosed{grant.id});
  closed();
  expect_baseline();
}

TEST_F(DecodePrefix, AReservationThatDoesNotFitKeepsNothingOfWhatItFound) {
  serve(1, 70);
  reserve(key(2), 180);  // shares four blocks and takes the eight others
  forget();
  reserve(key(3), 90);  // would share the same four
  ASSERT_EQ(told<protocol::Refused>().size(), 1U);
  EXPECT_EQ(told<protocol::Refused>()[0].reason, Reason::no_space);
  say(protocol::Cancel{key(2)});
  event(handoff::GrantClosed{101});
  expect_baseline();
}

TEST_F(DecodePrefix, SwitchedOffOrWithoutARootNothingIsHeldOrKept) {
  serve(1, 70);
  protocol::Work alone = work(70);
  alone.prefix_root.reset();
  say(protocol::Reserve{key(2), alone, 5000});
  EXPECT_THAT(held(told<protocol::Granted>()[0].grant), ElementsAre(0, 0));
  worker::NodeLimits limits = worker::small_limits();
  limits.prefix_cache = false;
  core_ = DecodeCore(limits, pools(), 100);
  forget();
  serve(1, 70);
  EXPECT_EQ(core_.pools().counts(0).cached, 0);
  EXPECT_THAT(held(grant_for(2, 70)), ElementsAre(0, 0));
}

}  // namespace
}  // namespace baton::decode_node

// Routers that connect to a worker.
#include "control_fixture.h"

namespace baton::worker {
namespace {

using handoff::OwnerRef;
using protocol::Role;
using testing::IsEmpty;
using testing::SizeIs;

const protocol::AttemptKey key{{1, 1}, {1, 1}};

class ControlTest : public ControlFixture {
 protected:
  ControlTest() : ControlFixture(Role::decode) {}

  void deliver(const OwnerRef& owner) { control.deliver({ToOwner{owner, protocol::Gone{key}}}); }
};

TEST_F(ControlTest, BeforeTheModelIsLoadedEverybodyIsToldToComeBack) {
  expect_refused(router(), Reason::no_worker);
}

TEST_F(ControlTest, ARouterLearnsWhoThisIsAndHowLoadedItIs) {
  serve();
  Peer& peer = router();
  ASSERT_TRUE(wait([&] { return peer.heard.size() == 2; }));
  const auto ack = peer.got<protocol::HelloAck>().at(0);
  EXPECT_EQ(ack.role, Role::decode);
  EXPECT_EQ(ack.node, NodeId("w"));
  EXPECT_EQ(ack.epoch, Epoch(50));
  EXPECT_EQ(peer.worker, Epoch(50));
  EXPECT_EQ(peer.addressed_to, Epoch(1));
  EXPECT_EQ(ack.fingerprint, fingerprint().digest());
  EXPECT_EQ(ack.fingerprint_fields, fingerprint().fields());
  EXPECT_EQ(ack.worker.model, "m");
  EXPECT_FALSE(ack.data.has_value());
  EXPECT_FALSE(peer.got<protocol::Report>().at(0).draining);
}

TEST_F(ControlTest, TheEngineLearnsWhoConnectedAndWhatItSays) {
  serve();
  Peer& peer = router();
  peer.say(protocol::Cancel{key});
  settle(peer);
  rig.engine->start(*rig.driver);
  ASSERT_TRUE(rig.core->wait_for("cancel"));
  EXPECT_THAT(rig.core->notes(), testing::IsSupersetOf({"connected r/1", "cancel of r/1"}));
}

TEST_F(ControlTest, AnotherVersionOfTheProtocolIsRefused) {
  serve();
  protocol::Hello hello = hello_of(Role::router, "r", Epoch(1));
  hello.version = protocol::protocol_version + 1;
  expect_refused(introduce(hello), Reason::version_mismatch);
}

TEST_F(ControlTest, ADecodeNodeDoesNotConnectToADecodeNode) {
  serve();
  expect_refused(introduce(hello_of(Role::decode, "d", Epoch(1))), Reason::protocol_violation);
}

TEST_F(ControlTest, WhoeverDoesNotBeginWithAHelloIsClosed) {
  serve();
  Peer& early = connect(Epoch(1));
  early.say(protocol::Cancel{key});
  Peer& garbage = connect(Epoch(2));
  garbage.connection->send("garbage");
  EXPECT_TRUE(wait([&] { return early.closed && garbage.closed; }));
  EXPECT_EQ(dropped(Reason::protocol_violation), 2);
  EXPECT_THAT(early.heard, IsEmpty());
}

TEST_F(ControlTest, GarbageOfAKnownRouterIsCountedAndNothingElse) {
  serve();
  Peer& peer = router();
  for (int i = 0; i < 3; ++i) peer.connection->send("garbage");
  settle(peer);
  EXPECT_FALSE(peer.closed);
  EXPECT_EQ(dropped(Reason::protocol_violation), 3);
}

TEST_F(ControlTest, MessagesOfOtherLivesAreDroppedAndCounted) {
  serve();
  Peer& peer = router();
  const Epoch worker = std::exchange(peer.worker, Epoch(49));  // an earlier life of this node
  peer.say(protocol::Cancel{key});
  peer.worker = worker;
  peer.epoch = Epoch(9);  // not the one that said hello
  peer.say(protocol::Cancel{key});
  peer.epoch = Epoch(1);
  settle(peer);
  EXPECT_EQ(dropped(Reason::stale_epoch), 2);
  rig.engine->start(*rig.driver);
  ASSERT_TRUE(rig.core->wait_for("connected"));
  ASSERT_TRUE(rig.core->wait_turn());
  EXPECT_THAT(rig.core->notes(), testing::Not(testing::Contains("cancel of r/1")));
}

TEST_F(ControlTest, ASecondHelloEndsItsConnectionAndNothingElse) {
  serve();
  Peer& twice = router("r", 1);
  Peer& other = router("s", 2);
  // With another name and epoch: the keys of an established session must not change.
  twice.say(hello_of(Role::router, "t", Epoch(3)));
  expect_refused(twice, Reason::protocol_violation);
  deliver({NodeId("r"), Epoch(1)});
  deliver({NodeId("t"), Epoch(3)});
  settle(other);
  EXPECT_FALSE(other.closed);
  EXPECT_THAT(router("r", 1).got<protocol::HelloAck>(), SizeIs(1));
}

TEST_F(ControlTest, TheNameOfALiveRouterIsNotGivenAway) {
  serve();
  Peer& first = router("r", 1);
  now += 1499ms;
  expect_refused(router("r", 2), Reason::duplicate_node);
  settle(first);
  EXPECT_FALSE(first.closed);
}

TEST_F(ControlTest, TheNameOfASilentRouterGoesToItsNextLife) {
  serve();
  Peer& first = router("r", 1);
  now += 1500ms;
  EXPECT_THAT(router("r", 2).got<protocol::HelloAck>(), SizeIs(1));
  EXPECT_TRUE(wait([&] { return first.closed; }));
}

TEST_F(ControlTest, WhatARouterSaysKeepsItsName) {
  serve();
  Peer& first = router("r", 1);
  now += 1400ms;
  settle(first);
  now += 1400ms;
  expect_refused(router("r", 2), Reason::duplicate_node);
}

TEST_F(ControlTest, OneLifeTalksOnItsNewestConnection) {
  serve();
  Peer& old = router("r", 1);
  Peer& fresh = router("r", 1);
  EXPECT_TRUE(wait([&] { return old.closed; }));
  deliver({NodeId("r"), Epoch(1)});
  settle(fresh);
  EXPECT_THAT(fresh.got<protocol::Gone>(), SizeIs(1));
  EXPECT_THAT(old.got<protocol::Gone>(), IsEmpty());
}

TEST_F(ControlTest, WhatTheEngineSaysGoesToItsOwnerAlone) {
  serve();
  Peer& first = router("r", 1);
  Peer& second = router("s", 2);
  deliver({NodeId("s"), Epoch(2)});
  deliver({NodeId("s"), Epoch(3)});
  deliver({NodeId("nobody"), Epoch(1)});
  settle(first);
  settle(second);
  EXPECT_THAT(first.got<protocol::Gone>(), IsEmpty());
  EXPECT_THAT(second.got<protocol::Gone>(), SizeIs(1));
}

TEST_F(ControlTest, ARouterThatLeftIsNotWrittenTo) {
  serve();
  Peer& gone = router("r", 1);
  gone.connection->close();
  Peer& other = router("s", 2);
  settle(other);
  deliver({NodeId("r"), Epoch(1)});
  EXPECT_THAT(router("r", 3).got<protocol::HelloAck>(), SizeIs(1));  // the name is free at once
}

TEST_F(ControlTest, ARouterThatFloodsTheEngineLosesItsConnection) {
  serve();
  Peer& flooding = router("r", 1);
  while (rig.engine->post(SendInventories{})) {
  }
  flooding.say(protocol::Cancel{key});
  EXPECT_TRUE(wait([&] { return flooding.closed; }));
}

TEST_F(ControlTest, ARouterThatTheEngineCannotLearnOfIsClosed) {
  serve();
  while (rig.engine->post(SendInventories{})) {
  }
  Peer& peer = router();
  EXPECT_TRUE(wait([&] { return peer.closed; }));
}

TEST_F(ControlTest, EachHeartbeatIsAnsweredWithAReport) {
  serve();
  Peer& peer = router();
  for (int i = 0; i < 3; ++i) peer.say(protocol::Heartbeat{5000});
  settle(peer);
  EXPECT_THAT(peer.got<protocol::Report>(), SizeIs(4));
}

TEST_F(ControlTest, ReportsComeEveryHalfSecondWithoutBeingAskedFor) {
  serve();
  Peer& peer = router();
  settle(peer);
  pass(0ms);  // the first tick reports at once
  for (int i = 0; i < 20; ++i) pass(50ms);
  settle(peer);
  EXPECT_THAT(peer.got<protocol::Report>(), SizeIs(1 + 1 + 2));
}

TEST_F(ControlTest, InventoriesAreAskedForEveryFiveSeconds) {
  serve();
  router();
  const OwnerRef owner{NodeId("r"), Epoch(1)};
  rig.core->held = {{owner, {key}}};
  pass(0ms);
  pass(4900ms);
  pass(100ms);
  rig.engine->start(*rig.driver);
  ASSERT_TRUE(rig.core->wait_for("inventory", 2));
  ASSERT_TRUE(rig.core->wait_turn());
  EXPECT_FALSE(rig.core->notes().size() < 2);
  const auto notes = rig.core->notes();
  EXPECT_EQ(std::count(notes.begin(), notes.end(), "inventory of r/1"), 2);
}

TEST_F(ControlTest, DrainingIsToldToEveryRouterAtOnce) {
  serve();
  Peer& first = router("r", 1);
  Peer& second = router("s", 2);
  control.set_draining();
  settle(first);
  settle(second);
  EXPECT_TRUE(first.got<protocol::Report>().back().draining);
  EXPECT_TRUE(second.got<protocol::Report>().back().draining);
  EXPECT_TRUE(router("t", 3).got<protocol::HelloAck>().size() == 1);
}

TEST_F(ControlTest, TheBundleComesWholeInPartsOfABoundedSize) {
  bundle.clear();
  for (int i = 0; i < 600'000; ++i) bundle += static_cast<char>('a' + i % 23);
  serve();
  Peer& peer = router();
  peer.say(protocol::BundleRequest{});
  ASSERT_TRUE(wait([&] { return peer.got<protocol::BundlePart>().size() == 3; }));
  std::string whole;
  for (const protocol::BundlePart& part : peer.got<protocol::BundlePart>()) {
    EXPECT_LE(part.bytes.size(), 256U * 1024);
    EXPECT_EQ(part.count, 3U);
    whole += part.bytes;
  }
  EXPECT_EQ(whole, bundle);
}

TEST_F(ControlTest, AfterItsEndNothingIsSentAndNobodyIsAccepted) {
  serve();
  Peer& peer = router();
  settle(peer);
  control.stop_serving();
  deliver({NodeId("r"), Epoch(1)});  // the engine's last words
  control.set_draining();
  pass(1s);
  EXPECT_TRUE(wait([&] { return peer.closed; }));
  EXPECT_THAT(peer.got<protocol::Gone>(), IsEmpty());
  expect_refused(router(), Reason::no_worker);
}

}  // namespace
}  // namespace baton::worker

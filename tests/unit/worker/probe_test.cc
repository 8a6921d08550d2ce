// Each verb of the probe reaches its own series and no other.
#include <sstream>

#include "worker_rig.h"

namespace baton::worker {
namespace {

/// What all series of these names add up to.
double sum_of(const std::string& exposed, const std::vector<std::string>& names) {
  double sum = 0;
  std::istringstream lines(exposed);
  for (std::string line; std::getline(lines, line);) {
    const auto begins = [&](const std::string& name) { return line.starts_with(name + "{"); };
    if (std::any_of(names.begin(), names.end(), begins))
      sum += std::stod(line.substr(line.rfind(' ')));
  }
  return sum;
}

const std::vector<std::string> counters = {
    "baton_requests_total",       "baton_refusals_total",      "baton_handoff_failures_total",
    "baton_leases_expired_total", "baton_orphans_freed_total", "baton_preemptions_total"};

class ProbeTest : public testing::Test {
 protected:
  double metric(const std::vector<std::string>& words) const {
    return value_of(registry.expose(), words);
  }

  metrics::Registry registry{"prefill", "p0"};
  Probe probe{registry, protocol::Role::prefill};
};

TEST_F(ProbeTest, EveryCountableHasASeriesOfItsOwn) {
  struct Case {
    Countable what;
    const char* name;
    const char* label;
  };
  for (const Case& each :
       {Case{Countable::request_finished, "baton_requests_total{", "outcome=\"finished\""},
        Case{Countable::request_failed, "baton_requests_total{", "outcome=\"failed\""},
        Case{Countable::request_cancelled, "baton_requests_total{", "outcome=\"cancelled\""},
        Case{Countable::request_refused, "baton_refusals_total{", "reason=\"no_space\""},
        Case{Countable::handoff_failed, "baton_handoff_failures_total{", "reason=\"no_space\""},
        Case{Countable::lease_expired, "baton_leases_expired_total{", ""},
        Case{Countable::orphan_freed, "baton_orphans_freed_total{", ""},
        Case{Countable::preempted, "baton_preemptions_total{", ""}}) {
    metrics::Registry own("prefill", "p0");
    Probe(own, protocol::Role::prefill).counted({each.what, Reason::no_space, {}});
    const std::string text = own.expose();
    EXPECT_EQ(value_of(text, {each.name, each.label}), 1) << each.name << each.label;
    EXPECT_EQ(sum_of(text, counters), 1) << each.name << each.label;
  }
}

TEST_F(ProbeTest, TheSenderAloneTimesAHandoff) {
  Counted accepted{Countable::handoff_accepted, Reason::internal, {}};
  accepted.facts.total = std::chrono::milliseconds(250);
  probe.counted(accepted);
  EXPECT_EQ(metric({"baton_handoff_seconds_count"}), 1);
  EXPECT_EQ(metric({"baton_handoff_seconds_sum"}), 0.25);
  metrics::Registry other("decode", "d0");
  Probe(other, protocol::Role::decode).counted(accepted);
  EXPECT_EQ(value_of(other.expose(), {"baton_handoff_seconds_count"}), 0);
}

TEST_F(ProbeTest, ReasonsHaveALabelEach) {
  EXPECT_EQ(reason_axis().values.size(), 44U);
  probe.frame_dropped(Reason::stale_epoch);
  probe.units_refused(Reason::out_of_range);
  probe.commit_refused(Reason::digest_mismatch);
  const std::string text = registry.expose();
  EXPECT_EQ(value_of(text, {"baton_control_dropped_total", "\"stale_epoch\""}), 1);
  EXPECT_EQ(value_of(text, {"baton_handoff_units_refused_total", "\"out_of_range\""}), 1);
  EXPECT_EQ(value_of(text, {"baton_handoff_failures_total", "\"digest_mismatch\""}), 1);
  EXPECT_EQ(sum_of(text, {"baton_control_dropped_total", "baton_handoff_units_refused_total",
                          "baton_handoff_failures_total"}),
            3);
}

TEST_F(ProbeTest, StepsAddWhatIsNewSinceTheLastOne) {
  probe.step_computed({.steps = 3, .prefill_rows = 40, .decode_rows = 5});
  probe.step_computed({.steps = 4, .prefill_rows = 40, .decode_rows = 9});
  EXPECT_EQ(metric({"baton_steps_total"}), 4);
  EXPECT_EQ(metric({"baton_forward_rows_total", "phase=\"prefill\""}), 40);
  EXPECT_EQ(metric({"baton_forward_rows_total", "phase=\"decode\""}), 9);
}

TEST_F(ProbeTest, BytesAreCountedByDirection) {
  probe.bytes_moved(10, 0);
  probe.bytes_moved(0, 7);
  EXPECT_EQ(metric({"baton_handoff_bytes_total", "\"sent\""}), 10);
  EXPECT_EQ(metric({"baton_handoff_bytes_total", "\"received\""}), 7);
}

TEST_F(ProbeTest, LoadAndPoolsAreShownForEveryLayerGroup) {
  kvcache::BlockPools pools({16, {{8, 0}, {4, 24}}, false});
  kvcache::SequenceBlocks blocks;
  ASSERT_TRUE(pools.extend(blocks, {0, 16, 32}));
  probe.has_layer_groups(2);
  protocol::Load load;
  load.queued = 3;
  load.running = 2;
  load.handoffs = 1;
  load.backlog = std::chrono::milliseconds(1500);
  probe.load_changed(load, pools);
  EXPECT_EQ(metric({"baton_queue_depth"}), 3);
  EXPECT_EQ(metric({"baton_running_requests"}), 2);
  EXPECT_EQ(metric({"baton_handoffs_in_flight"}), 1);
  EXPECT_EQ(metric({"baton_prefill_backlog_seconds"}), 1.5);
  EXPECT_EQ(metric({"baton_cache_blocks", "group=\"0\""}), 8);
  EXPECT_EQ(metric({"baton_cache_free_blocks", "group=\"0\""}), 6);
  EXPECT_EQ(metric({"baton_cache_usage_ratio", "group=\"0\""}), 0.25);
  EXPECT_EQ(metric({"baton_cache_blocks", "group=\"1\""}), 4);
  EXPECT_EQ(metric({"baton_cache_free_blocks", "group=\"1\""}), 3);
  EXPECT_EQ(metric({"baton_cache_quarantined_blocks", "group=\"0\""}), 0);
  const kvcache::BlockRef held = blocks.group(0).ref(0);
  pools.hold(0, held, kvcache::HolderKind::open_receive);
  pools.release(blocks);
  probe.load_changed(load, pools);
  EXPECT_EQ(metric({"baton_cache_quarantined_blocks", "group=\"0\""}), 1);
  pools.unhold(0, held, kvcache::HolderKind::open_receive);
}

TEST_F(ProbeTest, TheFirstGroupsSeriesExistBeforeTheModelIsKnown) {
  EXPECT_EQ(metric({"baton_cache_blocks", "group=\"0\""}), 0);
  EXPECT_EQ(metric({"baton_cache_blocks", "group=\"1\""}), -1);
  EXPECT_EQ(metric({"baton_build_info", "version="}), 1);
  probe.loaded(2.5);
  EXPECT_EQ(metric({"baton_model_load_seconds"}), 2.5);
}

}  // namespace
}  // namespace baton::worker

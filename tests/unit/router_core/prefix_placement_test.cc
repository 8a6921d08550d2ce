// Prompts go where their beginning is cached, as long as that pays.
#include <algorithm>
#include <numeric>

#include "table_fixture.h"

namespace baton::router {
namespace {

class PrefixPlacement : public TableFixture {
 protected:
  explicit PrefixPlacement(bool keep_prefixes = true) {
    prefix_cache = keep_prefixes;
    for (const char* node : {"p0", "p1", "d0", "d1"}) up(node);
  }
  /// 200 ids from `first` on, of which those behind `same` are its own.
  RequestId ask(TokenId first, std::ptrdiff_t same = 200) {
    Submission out = submission(++number_);
    out.work.prompt_ids.resize(200);
    std::iota(out.work.prompt_ids.begin(), out.work.prompt_ids.end(), first);
    std::fill(out.work.prompt_ids.begin() + same, out.work.prompt_ids.end(),
              static_cast<TokenId>(number_));
    EXPECT_TRUE(table.submit(out, now).has_value());
    collect();
    return {1, number_};
  }
  void serve(RequestId id) {
    const protocol::AttemptKey key{id, {1, 1}};
    const std::string prefill = node_of<protocol::Prefill>(id);
    const std::string decode = node_of<protocol::Reserve>(id);
    protocol::Grant granted = grant();
    granted.length = 200;
    say(decode, protocol::Granted{key, granted});
    say(prefill, tokens(key, 0, {20}));
    say(prefill, handed_over(key));
    say(decode, protocol::Owned{key, 0});
    say(decode, finished(key, 1));
    rest();
  }
  /// Reports make what was placed before them old news.
  void rest() {
    pass(seconds(1));
    for (const char* node : {"p0", "p1", "d0", "d1"}) report(node, 0);
  }
  void report(const std::string& node, std::int64_t backlog) {
    protocol::Report report;
    report.load.backlog_tokens = backlog;
    report.load.capacity_tokens = report.load.free_tokens = 1000;
    say(node, report);
  }

 private:
  std::uint64_t number_ = 0;
};

TEST_F(PrefixPlacement, ARepeatedPromptGoesToTheWorkersThatHaveIt) {  // PFX-03
  const RequestId first = ask(1);
  serve(first);
  for (int i = 0; i < 20; ++i) {
    const RequestId again = ask(1);
    EXPECT_EQ(node_of<protocol::Prefill>(again), node_of<protocol::Prefill>(first));
    EXPECT_EQ(node_of<protocol::Reserve>(again), node_of<protocol::Reserve>(first));
    serve(again);
  }
}

TEST_F(PrefixPlacement, OthersAreSpread) {  // RTR-06
  std::map<std::string, int> prefills;
  for (int i = 0; i < 100; ++i) {
    const RequestId id = ask(1 + 1000 * i);
    ++prefills[node_of<protocol::Prefill>(id)];
    serve(id);
  }
  EXPECT_THAT(prefills["p0"], testing::AllOf(testing::Ge(30), testing::Le(70)));
}

TEST_F(PrefixPlacement, AWorkerWithMoreQueuedThanItSavesIsNotWaitedFor) {  // RTR-06
  const RequestId first = ask(1);
  serve(first);
  const std::string has_it = node_of<protocol::Prefill>(first);
  for (int i = 0; i < 20; ++i) {
    report(has_it, 150);
    const RequestId waits = ask(1);
    EXPECT_EQ(node_of<protocol::Prefill>(waits), has_it);
    serve(waits);
  }
  report(has_it, 400);
  EXPECT_NE(node_of<protocol::Prefill>(ask(1)), has_it);
}

TEST_F(PrefixPlacement, AHitOnASmallPartCountsToo) {
  serve(ask(1));
  const RequestId first = ask(1);
  serve(first);
  for (int i = 0; i < 20; ++i) {
    const RequestId other = ask(1, 64);
    EXPECT_EQ(node_of<protocol::Prefill>(other), node_of<protocol::Prefill>(first));
    drop(other);
    rest();
  }
}

TEST_F(PrefixPlacement, ManyAtOnceStayWhereTheirBeginningIs) {
  serve(ask(1));
  const std::string has_it = node_of<protocol::Prefill>({1, 1});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(node_of<protocol::Prefill>(ask(1)), has_it);
}

class NoPrefixCaches : public PrefixPlacement {
 protected:
  NoPrefixCaches() : PrefixPlacement(false) {}
};

TEST_F(NoPrefixCaches, AreNotThoughtToHaveAnything) {
  serve(ask(1));
  std::map<std::string, int> prefills;
  for (int i = 0; i < 40; ++i) {
    const RequestId id = ask(1);
    ++prefills[node_of<protocol::Prefill>(id)];
    drop(id);
    rest();
  }
  EXPECT_EQ(prefills.size(), 2U);
}

TEST_F(PrefixPlacement, AWorkersNextLifeHasNothing) {
  const RequestId first = ask(1);
  serve(first);
  std::map<std::string, int> prefills;
  for (std::uint64_t life = 2; life < 42; ++life) {
    for (const char* node : {"p0", "p1"}) up(node, life);
    const RequestId id = ask(1);
    ++prefills[node_of<protocol::Prefill>(id)];
    drop(id);
  }
  EXPECT_EQ(prefills.size(), 2U);
}

}  // namespace
}  // namespace baton::router

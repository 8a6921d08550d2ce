// A handoff table with workers that are played by hand: what it sends is kept by worker and type,
// what it tells its caller by request.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "baton/router/core/handoff_table.h"

namespace baton::router {

using protocol::FinishReason;
using protocol::Role;
using std::chrono::milliseconds;
using std::chrono::seconds;

class TableFixture : public testing::Test {
 protected:
  explicit TableFixture(TableLimits limits = {}) : table(limits, 7) {}

  static WorkerRef ref(const std::string& node, std::uint64_t epoch = 1) {
    return {NodeId(node), Epoch(epoch)};
  }

  /// Names that begin with p are prefill nodes.
  void up(const std::string& node, std::uint64_t epoch = 1) {
    Worker worker;
    worker.node = NodeId(node);
    worker.role = node[0] == 'p' ? Role::prefill : Role::decode;
    worker.epoch = Epoch(epoch);
    if (worker.role == Role::decode) worker.info.prefill_suffix_tokens = prefill_suffix_tokens;
    worker.info.prefix_cache = prefix_cache;
    worker.load.capacity_tokens = worker.load.free_tokens = 1000;
    table.worker_up(worker, now);
    collect();
  }
  void down(const std::string& node, std::uint64_t epoch = 1) {
    table.worker_down(ref(node, epoch), now);
    collect();
  }
  void say(const std::string& node, protocol::Message message, std::uint64_t epoch = 1) {
    table.message(ref(node, epoch), std::move(message), now);
    collect();
  }
  void pass(Duration time) {
    now += time;
    table.tick(now);
    collect();
  }
  void drop(RequestId id) {
    table.drop(id, now);
    collect();
  }

  Submission submission(std::uint64_t number, std::int32_t max_tokens = 10) const {
    Submission out;
    out.id = {1, number};
    out.work.prompt_ids = {11, 12, 13};
    out.work.sampling.max_tokens = max_tokens;
    out.deadline = now + seconds(600);
    out.end_ids = {99};
    return out;
  }
  RequestId submit(std::uint64_t number = 1, std::int32_t max_tokens = 10) {
    EXPECT_TRUE(table.submit(submission(number, max_tokens), now).has_value());
    collect();
    return {1, number};
  }

  /// The last message of a type that a node was sent; fails the test when there is none.
  template <typename Message>
  Message last(const std::string& node) const {
    const auto found = sent.find({node, protocol::name(Message{})});
    if (found == sent.end()) {
      ADD_FAILURE() << node << " was sent no " << protocol::name(Message{});
      return {};
    }
    return std::get<Message>(found->second.back());
  }
  template <typename Message>
  std::size_t count(const std::string& node) const {
    const auto found = sent.find({node, protocol::name(Message{})});
    return found == sent.end() ? 0 : found->second.size();
  }
  /// The node that was sent the last Prefill (or Reserve) of one request.
  template <typename Message>
  std::string node_of(RequestId id) const {
    std::string out;
    std::uint64_t best = 0;
    for (const auto& [key, messages] : sent) {
      for (const auto& each : messages) {
        const auto* message = std::get_if<Message>(&each);
        if (message == nullptr || message->key.request != id) continue;
        const std::uint64_t legs =
            message->key.attempt.prefill_leg + message->key.attempt.decode_leg;
        if (legs >= best) out = key.first;
        best = std::max(best, legs);
      }
    }
    return out;
  }

  protocol::Grant grant() const { return {5, 3, {{0, 2, 0, {{4, 1, 9}}}}}; }
  protocol::Tokens tokens(protocol::AttemptKey key, std::int32_t first,
                          std::vector<TokenId> ids) const {
    protocol::Tokens out;
    out.key = key;
    out.first_index = first;
    out.ids = std::move(ids);
    return out;
  }
  protocol::Finished finished(protocol::AttemptKey key, std::int32_t count) const {
    protocol::Finished out;
    out.key = key;
    out.finish = FinishReason::length;
    out.tokens = count;
    return out;
  }
  static protocol::HandoffEnded handed_over(protocol::AttemptKey key) {
    return {key, true, {}, "", {}};
  }

  /// To the state `decoding` on p0 and d0, token 0 delivered.
  protocol::AttemptKey decoding(RequestId id) {
    const protocol::AttemptKey key{id, {1, 1}};
    say("d0", protocol::Granted{key, grant()});
    say("p0", tokens(key, 0, {20}));
    say("p0", handed_over(key));
    say("d0", protocol::Owned{key, 0});
    return key;
  }

  std::vector<TokenId> delivered(RequestId id) const {
    const auto found = texts.find(id);
    return found == texts.end() ? std::vector<TokenId>() : found->second;
  }
  Reason failure(RequestId id) const {
    const auto found = ends.find(id);
    if (found == ends.end() || !found->second.error) {
      ADD_FAILURE() << "no failure";
      return Reason::internal;
    }
    return found->second.error->reason();
  }

  void collect() {
    for (TableEffect& effect : table.take_effects()) {
      if (auto* each = std::get_if<SendTo>(&effect)) {
        sent[{each->worker.node.value(), protocol::name(each->message)}].push_back(each->message);
      } else if (auto* each_tokens = std::get_if<DeliverTokens>(&effect)) {
        std::vector<TokenId>& text = texts[each_tokens->request];
        EXPECT_EQ(static_cast<std::size_t>(each_tokens->first_index), text.size());
        for (const Delivered& token : each_tokens->tokens) text.push_back(token.id);
      } else if (auto* end = std::get_if<RequestEnded>(&effect)) {
        EXPECT_FALSE(ends.contains(end->request)) << "ended twice";
        ends[end->request] = *end;
      } else if (auto* attempt = std::get_if<AttemptMade>(&effect)) {
        attempts.push_back(attempt->reason);
      }
    }
  }

  HandoffTable table;
  std::int64_t prefill_suffix_tokens = 0;  ///< of decode nodes that come up
  bool prefix_cache = true;                ///< of nodes that come up
  Instant now{};
  std::map<std::pair<std::string, std::string>, std::vector<protocol::Message>> sent;
  std::map<RequestId, std::vector<TokenId>> texts;
  std::map<RequestId, RequestEnded> ends;
  std::vector<Reason> attempts;
};

/// A request that was placed on p0 and d0.
class OneRequest : public TableFixture {
 protected:
  OneRequest() {
    up("p0");
    up("d0");
    id = submit();
    key = {id, {1, 1}};
  }
  RequestId id;
  protocol::AttemptKey key;
};

}  // namespace baton::router

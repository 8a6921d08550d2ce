// What a node core has said so far, by kind, for tests that ask.
#pragma once

#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "baton/worker/core/node_core.h"

namespace baton::worker {

class EffectRecord {
 protected:
  template <typename Message>
  std::vector<Message> told() const {
    std::vector<Message> out;
    for (const protocol::Message& each : to_owner) {
      if (const auto* message = std::get_if<Message>(&each)) out.push_back(*message);
    }
    return out;
  }
  template <typename Message>
  std::vector<Message> told_to(const handoff::OwnerRef& owner) const {
    std::vector<Message> out;
    for (std::size_t i = 0; i < to_owner.size(); ++i) {
      const auto* message = std::get_if<Message>(&to_owner[i]);
      if (message != nullptr && recipients[i] == owner) out.push_back(*message);
    }
    return out;
  }
  template <typename Command>
  std::vector<Command> commands() const {
    std::vector<Command> out;
    for (const auto& each : to_driver) {
      if (const auto* command = std::get_if<Command>(&each)) out.push_back(*command);
    }
    return out;
  }
  template <typename Message>
  std::vector<Message> told_pair() const {
    std::vector<Message> out;
    for (const protocol::Message& each : to_pair) {
      if (const auto* message = std::get_if<Message>(&each)) out.push_back(*message);
    }
    return out;
  }
  int counted(Countable what) const {
    const auto found = counts.find(what);
    return found == counts.end() ? 0 : found->second;
  }
  int counted(Countable what, Reason why) const {
    const auto found = counts_by_reason.find({what, why});
    return found == counts_by_reason.end() ? 0 : found->second;
  }
  void forget() {
    to_owner.clear();
    recipients.clear();
    to_driver.clear();
    to_pair.clear();
  }

  void record(std::vector<NodeEffect> effects) {
    for (NodeEffect& effect : effects) {
      if (auto* owner = std::get_if<ToOwner>(&effect)) {
        to_owner.push_back(std::move(owner->message));
        recipients.push_back(owner->owner);
      } else if (auto* pair = std::get_if<ToPair>(&effect)) {
        to_pair.push_back(std::move(pair->message));
      } else if (auto* driver = std::get_if<ToDriver>(&effect)) {
        to_driver.push_back(std::move(driver->command));
      } else if (auto* count = std::get_if<Counted>(&effect)) {
        ++counts[count->what];
        ++counts_by_reason[{count->what, count->reason}];
      } else if (auto* looked_up = std::get_if<PrefixLookedUp>(&effect)) {
        lookups.push_back(*looked_up);
      } else if (auto* prompt = std::get_if<PromptReady>(&effect)) {
        prompts.push_back(*prompt);
      }
    }
  }

  std::vector<protocol::Message> to_owner;
  std::vector<handoff::OwnerRef> recipients;  ///< of to_owner, one each
  std::vector<protocol::Message> to_pair;
  std::vector<handoff::EngineCommand> to_driver;
  std::map<Countable, int> counts;
  std::vector<PrefixLookedUp> lookups;
  std::vector<PromptReady> prompts;
  std::map<std::pair<Countable, Reason>, int> counts_by_reason;
};

}  // namespace baton::worker

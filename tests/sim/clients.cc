// What routers do to the outside, and their clients.
#include <algorithm>

#include "simulation.h"

namespace baton::sim {

namespace {

/// The first ids of one of two texts that many prompts begin with.
std::vector<TokenId> shared_ids(std::uint64_t choice) {
  std::vector<TokenId> out(16 + choice / 2 % 150);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<TokenId>(1 + (i * i + 7 * i + choice % 2) % (vocabulary - 1));
  }
  return out;
}

}  // namespace

void Simulation::settle(Router& r) {
  for (router::TableEffect& effect : r.table->take_effects()) {
    std::visit([&](auto& each) { execute(r, each); }, effect);
  }
}

void Simulation::execute(Router& r, router::SendTo& e) {
  const bool ends = std::holds_alternative<protocol::Cancel>(e.message) ||
                    std::holds_alternative<protocol::Release>(e.message);
  if (ends && repeating_ && options_.plant == Plant::skip_repeats) return;
  Worker& w = workers_.at(e.worker.node.value());
  if (w.epoch == e.worker.epoch) to_worker(r, w, std::move(e.message));
}

void Simulation::execute(Router&, router::DeliverTokens& e) {
  Client& client = clients_.at(e.request);
  if (client.ended || client.dropped) violation("tokens after the end");
  if (static_cast<std::size_t>(e.first_index) != client.got.size()) violation("a gap or repeat");
  for (const router::Delivered& token : e.tokens) {
    const std::size_t index = client.got.size();
    if (index >= client.expected.size() || client.expected[index] != token.id) {
      violation("wrong token at " + std::to_string(index) + " of " +
                std::to_string(client.expected.size()));
    }
    client.got.push_back(token.id);
    note(static_cast<std::uint64_t>(token.id));
  }
}

void Simulation::execute(Router&, router::RequestEnded& e) {
  Client& client = clients_.at(e.request);
  if (client.ended || client.dropped) violation("a second end");
  client.ended = true;
  outcome_.longest_request_s =
      std::max(outcome_.longest_request_s, seconds(now_ - client.submitted));
  note(static_cast<std::uint64_t>(e.finish) + 7000);
  if (e.finish == protocol::FinishReason::error) {
    log("request {} failed: {}", static_cast<int>(e.request.low), e.error->message());
    ++outcome_.failed;
    ++outcome_.failures[e.error->reason()];
    return;
  }
  ++outcome_.finished;
  if (client.got != client.expected) violation("an end before all tokens");
}

void Simulation::execute(Router&, router::AttemptMade& e) {
  log("a new attempt of {}: {}", static_cast<int>(e.request.low),
      std::string(info(e.reason).label));
  ++outcome_.attempts;
  ++outcome_.attempt_reasons[e.reason];
}

void Simulation::submit(int number) {
  auto router = routers_.begin();
  if (routers_.size() > 1) {
    std::advance(router, static_cast<std::ptrdiff_t>(random_() % routers_.size()));
  }
  if (!router->second.alive) return after(50ms, [this, number] { submit(number); });
  router::Submission submission;
  submission.id = {options_.seed, static_cast<std::uint64_t>(number) + 1};
  constexpr std::size_t longest_prompt = 300;
  if (chance(options_.shared_prompt_chance)) {
    submission.work.prompt_ids = chance(0.3) ? turn_before(longest_prompt) : shared_ids(random_());
  }
  const std::size_t left = longest_prompt - submission.work.prompt_ids.size();
  const std::size_t longest = chance(0.2) ? left : std::min<std::size_t>(left, 60);
  const std::size_t length = 1 + random_() % longest;
  for (std::size_t i = 0; i < length; ++i) {
    submission.work.prompt_ids.push_back(static_cast<TokenId>(1 + random_() % (vocabulary - 1)));
  }
  protocol::Sampling& sampling = submission.work.sampling;
  sampling.temperature = 0;
  sampling.max_tokens = static_cast<std::int32_t>(1 + random_() % 80);
  if (options_.one_token_chance > 0 && chance(options_.one_token_chance)) sampling.max_tokens = 1;
  submission.deadline = now_ + 300s;
  submission.end_ids = {end_id};
  const RequestId id = submission.id;
  Client& client = clients_[id];
  client.router = router->first;
  client.submitted = now_;
  client.prompt = submission.work.prompt_ids;
  client.expected = expected_tokens(submission.work.prompt_ids, sampling.max_tokens);
  if (options_.drop_chance > 0 && chance(options_.drop_chance)) {
    client.drop_after = static_cast<int>(random_() % 12);
  }
  if (!router->second.table->submit(std::move(submission), now_)) violation("submission refused");
  settle(router->second);
  if (!chance(options_.cancel_chance)) return;
  after(between(0ms, 400ms), [this, id] { drop(id); });
}

/// What one of the clients has asked and was answered, when the next turn is shorter than this.
std::vector<TokenId> Simulation::turn_before(std::size_t longest) {
  if (clients_.empty()) return {};
  auto at = clients_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(random_() % clients_.size()));
  const Client& before = at->second;
  std::vector<TokenId> out = before.prompt;
  out.insert(out.end(), before.got.begin(), before.got.end());
  if (out.size() >= longest) out.clear();
  return out;
}

void Simulation::drop(RequestId id) {
  Client& client = clients_.at(id);
  if (client.ended || client.dropped) return;
  client.dropped = true;
  ++outcome_.dropped;
  log("the client of {} leaves", static_cast<int>(id.low));
  Router& router = routers_.at(client.router);
  router.table->drop(id, now_);
  settle(router);
}

/// Clients leave after the n-th message about them, so that each state of each side is met.
void Simulation::count_message(const protocol::Message& message) {
  std::visit(
      [&](const auto& each) {
        if constexpr (requires { each.key; }) {
          const auto client = clients_.find(each.key.request);
          if (client == clients_.end() || client->second.ended) return;
          if (client->second.drop_after < 0 || client->second.drop_after-- > 0) return;
          outcome_.dropped_after.insert(protocol::name(message));
          drop(each.key.request);
        }
      },
      message);
}

}  // namespace baton::sim

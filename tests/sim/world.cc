#include "world.h"

#include <algorithm>

#include "baton/handoff/core/digests.h"

#include "memory.h"

namespace baton::sim {

using namespace std::chrono_literals;  // NOLINT: durations all over this file
using handoff::LinkId;
using handoff::SourceId;
using handoff::TransferId;
using protocol::Role;

namespace {

constexpr int block_units = 2;
constexpr int vocabulary = 1000;
constexpr TokenId end_id = 0;
constexpr std::uint32_t layers = 3;
constexpr int window = 24;

handoff::Geometry geometry() { return {1, unit_positions * 8, {{0, {0, 2}}, {window, {1}}}}; }

kvcache::PoolConfig pool_config(int blocks) {
  kvcache::PoolConfig config;
  config.block_positions = block_units * unit_positions;
  config.groups = {{blocks, 0}, {blocks, window}};
  return config;
}

worker::NodeLimits node_limits() {
  worker::NodeLimits limits;
  limits.model = {vocabulary, 4096};
  limits.plan.token_budget = 64;
  limits.plan.chunk_rows = 40;
  limits.plan.layers = layers;
  limits.end_ids = {end_id};
  limits.headroom_tokens = 16;
  limits.lease = 2s;
  return limits;
}

router::TableLimits table_limits() {
  router::TableLimits limits;
  limits.lease = 2s;
  limits.queue_wait = 20s;
  limits.reconnect_wait = 20s;
  limits.attempts_without_token = 1000;
  limits.handoff_wait = 5s;
  limits.token_wait = 10s;
  limits.space_wait = 60s;
  return limits;
}

TokenId next_token(std::span<const TokenId> ids) {
  // About one in forty is the end.
  const std::uint64_t hash = hash_of(ids, ids.size());
  return hash % 40 == 0 ? end_id : static_cast<TokenId>(1 + hash % (vocabulary - 1));
}

std::vector<TokenId> expected_tokens(std::vector<TokenId> ids, std::int32_t max_tokens) {
  const std::size_t prompt = ids.size();
  for (std::int32_t i = 0; i < max_tokens; ++i) {
    ids.push_back(next_token(ids));
    if (ids.back() == end_id) break;
  }
  return {ids.begin() + static_cast<std::ptrdiff_t>(prompt), ids.end()};
}

Digest128 digest_of_unit(const Unit& unit) {
  return handoff::content_digest(std::as_bytes(std::span(unit)));
}

}  // namespace

struct World::Impl {
  explicit Impl(const Options& o) : options(o), random(o.seed), table(table_limits(), o.seed) {
    for (int i = 0; i < o.prefill_nodes; ++i) add_worker(Role::prefill, "p" + std::to_string(i));
    for (int i = 0; i < o.decode_nodes; ++i) add_worker(Role::decode, "d" + std::to_string(i));
  }

  // ---- time ----
  struct Event {
    Instant at;
    std::uint64_t order;
    std::function<void()> run;
    bool operator<(const Event& other) const {
      return std::tie(at, order) > std::tie(other.at, other.order);
    }
  };
  void after(Duration delay, std::function<void()> run) {
    agenda.push({now + delay, next_order++, std::move(run)});
  }
  Duration between(Duration low, Duration high) {
    return low + Duration(static_cast<Duration::rep>(
                     random() % static_cast<std::uint64_t>((high - low).count() + 1)));
  }
  bool chance(double probability) {
    return static_cast<double>(random() >> 11) * 0x1.0p-53 < probability;
  }
  void note(std::uint64_t value) { outcome.trace = mix(outcome.trace, value); }
  template <typename... Args>
  void log(const char* format, Args... args) {
    if (!options.log) return;
    std::printf("%10.4f ", seconds(now.time_since_epoch()));
    std::printf(format, args...);
    std::printf("\n");
  }
  static std::string describe(const protocol::Message& message) {
    std::string out = protocol::name(message);
    std::visit(
        [&out](const auto& each) {
          if constexpr (requires { each.key; }) {
            out += " " + std::to_string(each.key.request.low) + " (" +
                   std::to_string(each.key.attempt.prefill_leg) + "," +
                   std::to_string(each.key.attempt.decode_leg) + ")";
          }
          if constexpr (requires {
                          each.first_index;
                          each.ids;
                        }) {
            out += " from " + std::to_string(each.first_index) + " n " +
                   std::to_string(each.ids.size());
          }
          if constexpr (requires { each.work; }) {
            out += " length " + std::to_string(each.work.length());
          }
          if constexpr (requires { each.reason; }) {
            out += " " + std::string(info(each.reason).label);
          }
        },
        message);
    return out;
  }
  void violation(std::string what) {
    log("VIOLATION %s", what.c_str());
    if (outcome.violations.size() < 20) outcome.violations.push_back(std::move(what));
  }

  // ---- processes ----
  struct Transfer {
    std::string receiver;
    Epoch epoch;
    TransferId send;
    std::vector<handoff::Piece> from;
    protocol::UnitHeader header;
    bool flipped = false;
  };
  struct Worker {
    Role role = Role::prefill;
    std::string name;
    Epoch epoch;
    bool alive = true;
    Instant stopped_until;
    std::unique_ptr<worker::NodeCore> core;
    std::unique_ptr<handoff::Sender> sender;
    std::unique_ptr<handoff::Receiver> receiver;
    Memory memory;
    bool stepping = false;
    bool router_connected = false;
    std::uint64_t router_link = 0;        ///< counts connections; messages of an old one are lost
    std::map<std::string, LinkId> links;  ///< prefill: by decode node; decode: by prefill node
  };

  void add_worker(Role role, const std::string& name) {
    Worker& worker = workers[name];
    worker.role = role;
    worker.name = name;
    start(worker);
  }

  void start(Worker& w) {
    w.alive = true;
    w.stepping = false;
    w.epoch = Epoch(random() | 1);
    w.memory.clear();
    w.links.clear();
    if (w.role == Role::prefill) {
      w.core = std::make_unique<prefill_node::PrefillCore>(node_limits(),
                                                           pool_config(options.prefill_blocks));
    } else {
      w.core = std::make_unique<decode_node::DecodeCore>(
          node_limits(), pool_config(options.decode_blocks), random());
    }
    w.sender = std::make_unique<handoff::Sender>(geometry(), Digest256{}, handoff::SenderLimits{});
    w.receiver = std::make_unique<handoff::Receiver>(geometry(), Digest256{}, w.epoch,
                                                     handoff::ReceiverLimits{});
    connect_router(w);
  }

  handoff::OwnerRef owner() const { return {NodeId("r"), Epoch(1)}; }
  router::WorkerRef ref(const Worker& w) const { return {NodeId(w.name), w.epoch}; }

  void connect_router(Worker& w) {
    const Epoch epoch = w.epoch;
    after(between(1ms, 50ms), [this, &w, epoch] {
      if (!w.alive || w.epoch != epoch || w.router_connected) return;
      log("router and %s connected", w.name.c_str());
      w.router_connected = true;
      ++w.router_link;
      w.core->owner_connected(owner(), now);
      router::Worker entry;
      entry.node = NodeId(w.name);
      entry.role = w.role;
      entry.epoch = w.epoch;
      entry.load.capacity_tokens = entry.load.free_tokens = 1000;
      table.worker_up(entry, now);
      settle(w);
      settle_router();
      if (w.role == Role::decode) {
        for (auto& [name, p] : workers) {
          if (p.role == Role::prefill) connect_pair(p, w);
        }
      } else {
        for (auto& [name, d] : workers) {
          if (d.role == Role::decode) connect_pair(w, d);
        }
      }
    });
  }

  void connect_pair(Worker& p, Worker& d) {
    if (!p.alive || !d.alive || p.links.contains(d.name)) return;
    const LinkId link(next_link++);
    const RequestId secret{random(), random()};
    p.links[d.name] = link;
    d.links[p.name] = link;
    d.receiver->link_up(link, secret);
    p.sender->link_up(link, NodeId(d.name), d.epoch, secret, now);
    settle(p);
  }

  void cut_pair(Worker& p, Worker& d, bool reconnect) {
    const auto found = p.links.find(d.name);
    if (found == p.links.end()) return;
    log("cut %s and %s", p.name.c_str(), d.name.c_str());
    const LinkId link = found->second;
    p.links.erase(found);
    d.links.erase(p.name);
    // Transfers of the link end on both sides before it is down.
    for (auto it = transfers.begin(); it != transfers.end();) {
      const auto& [offer, transfer] = *it;
      const bool ours = transfer.receiver == d.name && senders.at(offer) == p.name;
      if (!ours) {
        ++it;
        continue;
      }
      const Transfer lost = transfer;
      const TransferId id = offer;
      it = transfers.erase(it);
      if (d.alive && lost.epoch == d.epoch) d.receiver->received(id, {});
      if (p.alive) p.sender->send_done(lost.send, handoff::SendOutcome::lost, now);
    }
    if (p.alive) p.sender->link_down(link, now);
    if (d.alive) d.receiver->link_down(link);
    if (reconnect) after(between(10ms, 400ms), [this, &p, &d] { connect_pair(p, d); });
    if (p.alive) settle(p);
    if (d.alive) settle(d);
  }

  void cut_router(Worker& w, bool reconnect) {
    if (!w.router_connected) return;
    log("cut router and %s", w.name.c_str());
    w.router_connected = false;
    ++w.router_link;
    table.worker_down(ref(w), now);
    settle_router();
    if (reconnect) connect_router(w);
  }

  void kill(Worker& w) {
    if (!w.alive) return;
    ++outcome.kills;
    log("kill %s", w.name.c_str());
    w.alive = false;
    for (auto& [name, other] : workers) {
      if (other.role == w.role) continue;
      Worker& p = w.role == Role::prefill ? w : other;
      Worker& d = w.role == Role::prefill ? other : w;
      cut_pair(p, d, false);
    }
    cut_router(w, false);
    after(between(50ms, 800ms), [this, &w] { start(w); });
  }

  // ---- messages ----
  Duration latency(const Worker& w) {
    Duration delay = between(50us, 2ms);
    if (chance(0.02)) delay += between(1ms, 100ms);
    if (now < w.stopped_until) delay += w.stopped_until - now;
    return delay;
  }

  /// FIFO: a message never overtakes an earlier one of its connection.
  Instant in_order(const std::string& channel, Duration delay) {
    Instant& last = channels[channel];
    last = std::max(last + 1ns, now + delay);
    return last;
  }

  void to_worker(Worker& w, protocol::Message message) {
    if (!w.router_connected) return;
    const std::uint64_t link = w.router_link;
    const Instant at = in_order("r>" + w.name, latency(w));
    after(at - now, [this, &w, link, message = std::move(message)] {
      if (!w.alive || w.router_link != link) return;
      note(message.index());
      log("r > %s %s", w.name.c_str(), describe(message).c_str());
      w.core->message(owner(), message, now);
      settle(w);
    });
  }
  void to_router(Worker& w, protocol::Message message) {
    if (!w.router_connected) return;
    const std::uint64_t link = w.router_link;
    const router::WorkerRef from = ref(w);
    const Instant at = in_order(w.name + ">r", latency(w));
    after(at - now, [this, &w, link, from, message = std::move(message)] {
      if (w.router_link != link) return;
      note(message.index() + 100);
      log("%s > r %s", from.node.value().c_str(), describe(message).c_str());
      table.message(from, message, now);
      settle_router();
    });
  }
  void to_pair(Worker& from, LinkId link, protocol::Message message) {
    for (auto& [name, id] : from.links) {
      if (id != link) continue;
      Worker& to = workers.at(name);
      const Instant at = in_order(from.name + ">" + name, latency(to));
      after(at - now, [this, &to, link, message = std::move(message)] {
        const bool current = std::any_of(to.links.begin(), to.links.end(),
                                         [link](const auto& each) { return each.second == link; });
        if (!to.alive || !current) return;
        log("> %s %s", to.name.c_str(), describe(message).c_str());
        pair_message(to, link, message);
        settle(to);
      });
      return;
    }
  }
  void pair_message(Worker& to, LinkId link, const protocol::Message& message) {
    if (const auto* commit = std::get_if<protocol::Commit>(&message)) {
      to.receiver->commit(link, *commit, now);
    } else if (const auto* accepted = std::get_if<protocol::Accepted>(&message)) {
      to.sender->accepted(link, *accepted, now);
    } else if (const auto* refused = std::get_if<protocol::CommitRefused>(&message)) {
      to.sender->commit_refused(link, *refused, now);
    }
  }

  // ---- effects of a worker ----
  void settle(Worker& w) {
    for (bool any = true; any && w.alive;) {
      any = false;
      for (worker::NodeEffect& effect : w.core->take_effects()) {
        any = true;
        std::visit([&](auto& each) { execute(w, each); }, effect);
      }
      for (handoff::SenderEffect& effect : w.sender->take_effects()) {
        any = true;
        std::visit([&](auto& each) { execute(w, each); }, effect);
      }
      for (handoff::ReceiverEffect& effect : w.receiver->take_effects()) {
        any = true;
        std::visit([&](auto& each) { execute(w, each); }, effect);
      }
    }
    if (w.alive && !w.stepping) begin_step(w);
  }

  void execute(Worker& w, worker::ToOwner& e) { to_router(w, std::move(e.message)); }
  void execute(Worker& w, worker::ToPair& e) { to_pair(w, e.link, std::move(e.message)); }
  void execute(Worker&, worker::Counted& e) {
    if (e.what == worker::Countable::preempted) ++outcome.preemptions;
  }
  void execute(Worker& w, worker::ToDriver& e) {
    std::visit([&](auto& command) { drive(w, command); }, e.command);
  }
  void drive(Worker& w, handoff::BeginSource& c) {
    w.sender->begin(c.source, c.key, c.length, std::move(c.blocks), now);
  }
  void drive(Worker& w, handoff::ExtendSource& c) {
    w.sender->extend(c.source, std::move(c.blocks));
  }
  void drive(Worker& w, handoff::LayerReady& c) {
    const auto ready = w.sender->newly_ready(c.source, c.layer, c.positions);
    if (ready.count == 0) return;
    std::vector<Digest128> digests = digest(w, ready.pieces);
    std::vector<Digest128> v(digests.begin() + ready.count, digests.end());
    digests.resize(ready.count);
    w.sender->units_ready(c.source, c.layer, ready.first, digests, v, c.computed_at, now);
  }
  void drive(Worker& w, handoff::CommitSource& c) {
    w.sender->commit(c.source, c.first_index, c.tokens, c.sampled_at, now);
  }
  void drive(Worker& w, handoff::SetTarget& c) {
    w.sender->target(c.source, c.key, c.node, c.epoch, c.grant, now);
  }
  void drive(Worker& w, handoff::AbortSource& c) {
    if (options.release_early) w.core->driver_event(handoff::SourceIdle{c.source}, now);
    w.sender->abort(c.source);
  }
  void drive(Worker& w, handoff::OpenGrant& c) {
    w.receiver->open(c.key, c.grant, std::move(c.blocks));
  }
  void drive(Worker& w, handoff::CloseGrant& c) { w.receiver->close(c.grant); }

  std::vector<Digest128> digest(Worker& w, const std::vector<handoff::Piece>& pieces) {
    std::vector<Digest128> out;
    for (const handoff::Piece& piece : pieces) {
      for (std::uint32_t i = 0; i < piece.count; ++i) {
        out.push_back(digest_of_unit(w.memory.unit(piece, i)));
      }
    }
    return out;
  }

  // ---- data plane ----
  void execute(Worker& w, handoff::SendUnits& e) {
    for (auto& [name, link] : w.links) {
      if (link != e.link) continue;
      Worker& to = workers.at(name);
      const TransferId offer(next_offer++);
      transfers[offer] = {name, to.epoch, e.id, e.pieces, e.header, chance(options.flip_chance)};
      senders[offer] = w.name;
      after(latency(to), [this, &to, offer, link = e.link] { offered(to, offer, link); });
      return;
    }
    w.sender->send_done(e.id, handoff::SendOutcome::lost, now);
  }
  void offered(Worker& to, TransferId offer, LinkId link) {
    const auto found = transfers.find(offer);
    if (found == transfers.end() || !to.alive) return;
    const protocol::UnitHeader header = found->second.header;
    to.receiver->offered(link, offer, header,
                         2 * header.units * static_cast<std::uint64_t>(unit_positions) * 8);
    settle(to);
  }
  void execute(Worker& w, handoff::AcceptUnits& e) {
    const TransferId offer = e.offer;
    const std::vector<handoff::Piece> pieces = e.pieces;
    after(latency(w), [this, &w, offer, pieces] { copy(w, offer, pieces); });
  }
  /// The bytes cross now: whatever the sender's blocks hold at this moment.
  void copy(Worker& w, TransferId offer, const std::vector<handoff::Piece>& pieces) {
    const auto found = transfers.find(offer);
    if (found == transfers.end() || !w.alive) return;
    const Transfer transfer = found->second;
    transfers.erase(found);
    Worker& from = workers.at(senders.at(offer));
    std::vector<const Unit*> source;
    for (const handoff::Piece& piece : transfer.from) {
      for (std::uint32_t i = 0; i < piece.count; ++i) source.push_back(&from.memory.unit(piece, i));
    }
    std::size_t at = 0;
    for (const handoff::Piece& piece : pieces) {
      for (std::uint32_t i = 0; i < piece.count; ++i) w.memory.unit(piece, i) = *source[at++];
    }
    if (transfer.flipped) {
      ++outcome.flips;
      w.memory.unit(pieces.front(), 0)[0] ^= 1;
    }
    // The planted bug takes the digests of what was sent for those of what arrived.
    w.receiver->received(
        offer, options.skip_verification ? digest(from, transfer.from) : digest(w, pieces));
    settle(w);
    if (from.alive) {
      from.sender->send_done(transfer.send, handoff::SendOutcome::ok, now);
      settle(from);
    }
  }
  void execute(Worker& w, handoff::RefuseUnits& e) {
    ++outcome.refused_units;
    end_send(w, e.offer, handoff::SendOutcome::refused);
  }
  void execute(Worker& w, handoff::CancelReceive& e) {
    const TransferId offer = e.offer;
    after(latency(w), [this, &w, offer] {
      const auto found = transfers.find(offer);
      if (found == transfers.end() || !w.alive) return;
      const Transfer transfer = found->second;
      transfers.erase(found);
      w.receiver->received(offer, {});
      settle(w);
      finish_send(workers.at(senders.at(offer)), transfer.send, handoff::SendOutcome::cancelled);
    });
  }
  void end_send(Worker&, TransferId offer, handoff::SendOutcome result) {
    const auto found = transfers.find(offer);
    if (found == transfers.end()) return;
    const Transfer transfer = found->second;
    transfers.erase(found);
    Worker& from = workers.at(senders.at(offer));
    after(latency(from),
          [this, &from, transfer, result] { finish_send(from, transfer.send, result); });
  }
  void finish_send(Worker& from, TransferId send, handoff::SendOutcome result) {
    if (!from.alive) return;
    from.sender->send_done(send, result, now);
    settle(from);
  }
  void execute(Worker& w, handoff::CancelSend& e) {
    const TransferId send = e.id;
    after(latency(w), [this, &w, send] {
      for (auto it = transfers.begin(); it != transfers.end(); ++it) {
        if (it->second.send != send || senders.at(it->first) != w.name) continue;
        const TransferId offer = it->first;
        const Transfer transfer = it->second;
        transfers.erase(it);
        Worker& to = workers.at(transfer.receiver);
        if (to.alive && to.epoch == transfer.epoch) {
          to.receiver->received(offer, {});
          settle(to);
        }
        finish_send(w, send, handoff::SendOutcome::cancelled);
        return;
      }
    });
  }
  void execute(Worker& w, handoff::SendCommit& e) { to_pair(w, e.link, e.commit); }
  void execute(Worker& w, handoff::RefuseCommit& e) { to_pair(w, e.link, e.message); }
  void execute(Worker& w, handoff::SourceAccepted& e) { w.core->driver_event(e, now); }
  void execute(Worker& w, handoff::SourceFailed& e) { w.core->driver_event(e, now); }
  void execute(Worker& w, handoff::SourceIdle& e) { w.core->driver_event(e, now); }
  void execute(Worker& w, handoff::CommitVerified& e) { w.core->driver_event(e, now); }
  void execute(Worker& w, handoff::GrantClosed& e) { w.core->driver_event(e, now); }

  // ---- the forward pass ----
  void begin_step(Worker& w) {
    if (now < w.stopped_until) return;
    const engine::StepPlan plan = w.core->next_step(now);
    flush_core(w);
    if (plan.empty()) return;
    w.stepping = true;
    const Epoch epoch = w.epoch;
    const Result<void> prepared = engine::prepare_step(plan, w.core->table(), w.core->pools());
    if (!prepared) {
      violation(w.name + ": step refused: " + prepared.error().message());
      return;
    }
    auto left = std::make_shared<std::set<engine::SequenceId>>();
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      after(Duration(200us) * (layer + 1), [this, &w, epoch, plan, layer, left] {
        if (!w.alive || w.epoch != epoch) return;
        compute_layer(w, plan, layer, *left);
      });
    }
    after(Duration(200us) * (layers + 1), [this, &w, epoch, plan, left] {
      if (w.alive && w.epoch == epoch) end_step(w, plan, *left);
    });
  }
  void flush_core(Worker& w) {
    for (worker::NodeEffect& effect : w.core->take_effects()) {
      std::visit([&](auto& each) { execute(w, each); }, effect);
    }
  }
  /// Rows of sequences that were cancelled leave the step, as in the engine.
  void drop_cancelled(Worker& w, const engine::StepPlan& plan, std::set<engine::SequenceId>& left) {
    const auto check = [&](engine::SequenceId id) {
      if (left.contains(id) || !w.core->cancelled(id)) return;
      left.insert(id);
      w.core->table().remove(id, w.core->pools());
    };
    for (const auto& row : plan.decode) check(row.sequence);
    for (const auto& rows : plan.prefill) check(rows.sequence);
  }
  void compute_layer(Worker& w, const engine::StepPlan& plan, std::uint32_t layer,
                     std::set<engine::SequenceId>& left) {
    drop_cancelled(w, plan, left);
    for (const auto& row : plan.decode) {
      if (left.contains(row.sequence)) continue;
      check_cache(w, row.sequence, row.position, layer);
      write_cache(w, row.sequence, row.position, 1, layer);
    }
    for (const auto& rows : plan.prefill) {
      if (!left.contains(rows.sequence)) {
        write_cache(w, rows.sequence, rows.first_position, rows.count, layer);
      }
    }
    w.core->layer_done(static_cast<int>(layer), now);
    settle(w);
  }
  std::pair<std::uint32_t, std::uint32_t> place_of(std::uint32_t layer) const {
    return layer == 1 ? std::pair{1U, 0U} : std::pair{0U, layer / 2};
  }
  Unit* unit_at(Worker& w, const engine::Sequence& sequence, std::int64_t position,
                std::uint32_t layer, int component) {
    const auto [group, index] = place_of(layer);
    const auto unit = static_cast<std::uint32_t>(position / unit_positions);
    const std::int32_t block =
        sequence.blocks().group(static_cast<int>(group)).blocks().at(unit / block_units);
    return block < 0 ? nullptr : &w.memory.unit(group, index, component, block, unit % block_units);
  }
  void write_cache(Worker& w, engine::SequenceId id, std::int64_t first, std::int64_t count,
                   std::uint32_t layer) {
    const engine::Sequence& sequence = *w.core->table().find(id);
    for (std::int64_t p = first; p < first + count; ++p) {
      const std::uint64_t hash = hash_of(sequence.ids(), static_cast<std::size_t>(p + 1));
      for (int component = 1; component <= 2; ++component) {
        Unit* unit = unit_at(w, sequence, p, layer, component);
        if (unit == nullptr) continue;  // dropped by the window
        if (p % unit_positions == 0) unit->assign(unit_positions, 0);
        (*unit)[static_cast<std::size_t>(p % unit_positions)] =
            cached_value(hash, layer, component);
      }
    }
  }
  void check_cache(Worker& w, engine::SequenceId id, std::int64_t position, std::uint32_t layer) {
    const engine::Sequence& sequence = *w.core->table().find(id);
    const std::int64_t first = layer == 1 ? std::max<std::int64_t>(0, position - (window - 1)) : 0;
    std::uint64_t hash = 7;
    for (std::int64_t p = 0; p < position; ++p) {
      hash = mix(hash, static_cast<std::uint64_t>(sequence.ids()[static_cast<std::size_t>(p)]));
      if (p < first) continue;
      for (int component = 1; component <= 2; ++component) {
        const Unit* unit = unit_at(w, sequence, p, layer, component);
        if (unit != nullptr && (*unit)[static_cast<std::size_t>(p % unit_positions)] ==
                                   cached_value(hash, layer, component)) {
          continue;
        }
        return violation(w.name + ": decode at " + std::to_string(position) +
                         " would read a wrong cache at " + std::to_string(p));
      }
    }
  }
  void end_step(Worker& w, const engine::StepPlan& plan, std::set<engine::SequenceId>& left) {
    drop_cancelled(w, plan, left);
    engine::StepEvents events;
    events.shape = plan.shape;
    events.took = Duration(200us) * (layers + 1);
    engine::SequenceTable& sequences = w.core->table();
    const std::uint64_t number = sequences.next_step();
    const auto sample = [&](engine::SequenceId id) {
      engine::Sequence& sequence = *sequences.find(id);
      engine::TokenEvent event;
      event.sequence = id;
      event.index = sequence.generated_count();
      event.id = next_token(sequence.ids());
      event.finish = sequence.append(event.id);
      events.tokens.push_back(event);
    };
    for (const auto& row : plan.decode) {
      if (left.contains(row.sequence)) continue;
      sequences.find(row.sequence)->advance(1, number, w.core->pools());
      sample(row.sequence);
    }
    for (const auto& rows : plan.prefill) {
      if (left.contains(rows.sequence)) continue;
      engine::Sequence& sequence = *sequences.find(rows.sequence);
      sequence.advance(rows.count, number, w.core->pools());
      events.chunks.push_back(rows);
      if (sequence.cached() == sequence.length()) sample(rows.sequence);
    }
    events.cancelled.assign(left.begin(), left.end());
    w.stepping = false;
    w.core->step_done(events, now);
    settle(w);
  }

  // ---- the router and its clients ----
  struct Client {
    std::vector<TokenId> expected;
    std::vector<TokenId> got;
    bool ended = false;
    bool dropped = false;
  };
  void settle_router() {
    for (router::TableEffect& effect : table.take_effects()) {
      std::visit([this](auto& each) { execute(each); }, effect);
    }
  }
  void execute(router::SendTo& e) {
    Worker& w = workers.at(e.worker.node.value());
    if (w.epoch == e.worker.epoch) to_worker(w, std::move(e.message));
  }
  void execute(router::DeliverTokens& e) {
    Client& client = clients.at(e.request);
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
  void execute(router::RequestEnded& e) {
    Client& client = clients.at(e.request);
    if (client.ended || client.dropped) violation("a second end");
    client.ended = true;
    note(static_cast<std::uint64_t>(e.finish) + 7000);
    if (e.error)
      log("request %d failed: %s", static_cast<int>(e.request.low), e.error->message().c_str());
    if (e.error) {
      for (auto& [name, w] : workers) {
        const auto load = w.core->load();
        log("%s stepping %d queued %d running %d handoffs %d free %d/%d sequences %d", name.c_str(),
            static_cast<int>(w.stepping), load.queued, load.running, load.handoffs,
            w.core->pools().free_blocks(0), w.core->pools().free_blocks(1),
            static_cast<int>(w.core->table().all().size()));
      }
    }
    if (e.finish == protocol::FinishReason::error) {
      ++outcome.failed;
      ++outcome.failures[e.error->reason()];
      return;
    }
    ++outcome.finished;
    if (client.got != client.expected) violation("an end before all tokens");
  }
  void execute(router::AttemptMade& e) {
    ++outcome.attempts;
    ++outcome.attempt_reasons[e.reason];
  }
  void execute(router::HandoffFailed&) {}
  void execute(router::HandoffDone&) {}

  void submit(int number) {
    router::Submission submission;
    submission.id = {options.seed, static_cast<std::uint64_t>(number) + 1};
    const std::size_t length = 1 + random() % (chance(0.2) ? 300 : 60);
    for (std::size_t i = 0; i < length; ++i) {
      submission.work.prompt_ids.push_back(static_cast<TokenId>(1 + random() % (vocabulary - 1)));
    }
    submission.work.sampling.temperature = 0;
    submission.work.sampling.max_tokens = static_cast<std::int32_t>(1 + random() % 80);
    submission.deadline = now + 300s;
    submission.end_ids = {end_id};
    const RequestId id = submission.id;
    clients[id].expected =
        expected_tokens(submission.work.prompt_ids, submission.work.sampling.max_tokens);
    if (!table.submit(std::move(submission), now)) violation("submission refused");
    settle_router();
    if (!chance(options.cancel_chance)) return;
    after(between(0ms, 400ms), [this, id] {
      Client& client = clients.at(id);
      if (client.ended) return;
      client.dropped = true;
      ++outcome.dropped;
      table.drop(id, now);
      settle_router();
    });
  }

  // ---- faults ----
  Worker& any_worker() {
    auto it = workers.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(random() % workers.size()));
    return it->second;
  }
  void fault_tick() {
    constexpr double interval_s = 0.01;
    if (chance(options.kills_per_second * interval_s)) kill(any_worker());
    if (chance(options.cuts_per_second * interval_s)) {
      ++outcome.cuts;
      Worker& w = any_worker();
      if (chance(0.5)) {
        cut_router(w, w.alive);
      } else {
        for (auto& [name, other] : workers) {
          if (other.role == w.role) continue;
          Worker& p = w.role == Role::prefill ? w : other;
          Worker& d = w.role == Role::prefill ? other : w;
          cut_pair(p, d, true);
        }
      }
    }
    if (chance(options.stops_per_second * interval_s)) {
      ++outcome.stops;
      any_worker().stopped_until = now + between(10ms, 1500ms);
    }
    if (seconds(now.time_since_epoch()) < options.fault_seconds) {
      after(10ms, [this] { fault_tick(); });
    }
  }

  void tick() {
    table.tick(now);
    settle_router();
    const bool heartbeat = tick_count++ % 25 == 0;
    for (auto& [name, w] : workers) {
      if (!w.alive || now < w.stopped_until) continue;
      if (heartbeat && w.router_connected) to_worker(w, protocol::Heartbeat{2000});
      w.core->tick(now);
      w.sender->tick(now);
      w.receiver->tick(now);
      if (heartbeat) {
        auto keys = w.core->inventory(owner());
        if (!keys.empty()) to_router(w, protocol::Inventory{std::move(keys)});
      }
      settle(w);
    }
    after(20ms, [this] { tick(); });
  }

  bool quiet() const {
    const bool ended = std::all_of(clients.begin(), clients.end(), [](const auto& each) {
      return each.second.ended || each.second.dropped;
    });
    const bool idle = std::all_of(workers.begin(), workers.end(), [](const auto& each) {
      return each.second.alive && each.second.core->idle();
    });
    return ended && idle && static_cast<int>(clients.size()) == options.requests &&
           table.debts() == 0;
  }
  void check_baseline() {
    for (auto& [name, w] : workers) {
      for (int group = 0; group < w.core->pools().groups(); ++group) {
        const kvcache::PoolCounts counts = w.core->pools().counts(group);
        if (counts.free != counts.total || counts.quarantined != 0) {
          violation(name + ": group " + std::to_string(group) + " has " +
                    std::to_string(counts.total - counts.free) + " blocks stranded");
        }
      }
      if (w.sender->sources() != 0) violation(name + ": a source is left");
      if (w.receiver->grants() != 0) violation(name + ": a grant is left");
    }
  }

  Outcome run() {
    for (int i = 0; i < options.requests; ++i) {
      after(between(0ms, 2000ms), [this, i] { submit(i); });
    }
    after(0ms, [this] { tick(); });
    after(100ms, [this] { fault_tick(); });
    constexpr Duration limit = 600s;
    std::optional<Instant> quiet_since;
    while (!agenda.empty() && outcome.violations.empty()) {
      const Event event = agenda.top();
      agenda.pop();
      now = event.at;
      event.run();
      if (now.time_since_epoch() > limit) {
        violation("not everything ended");
        break;
      }
      if (!quiet()) {
        quiet_since.reset();
      } else if (!quiet_since) {
        quiet_since = now;
      } else if (now - *quiet_since > 1s) {
        outcome.ended_at_s = seconds(quiet_since->time_since_epoch());
        break;
      }
    }
    if (outcome.violations.empty()) check_baseline();
    return outcome;
  }

  Options options;
  std::mt19937_64 random;
  router::HandoffTable table;
  Instant now{};
  std::uint64_t next_order = 0;
  std::uint64_t next_link = 1;
  std::uint64_t next_offer = 1;
  std::uint64_t tick_count = 0;
  std::priority_queue<Event> agenda;
  std::map<std::string, Worker> workers;
  std::map<TransferId, Transfer> transfers;
  std::map<TransferId, std::string> senders;
  std::map<std::string, Instant> channels;
  std::map<RequestId, Client> clients;
  Outcome outcome;
};

World::World(Options options) : impl_(std::make_unique<Impl>(options)) {}
World::~World() = default;
Outcome World::run() { return impl_->run(); }

}  // namespace baton::sim

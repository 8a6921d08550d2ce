// Wire to native: one overload a type, every count and range checked (R7, R26).
#include <algorithm>
#include <cmath>

#include "baton/protocol/codec.h"

#include "bounds.h"
#include "wire.h"

namespace baton::protocol {
namespace {

// Bounds of lists inside one message. A frame is at most 1 MiB, so these only keep a hostile peer
// from turning cheap wire bytes into much larger native values.
constexpr int max_keys = 20'000;
constexpr int max_runs = 20'000;
constexpr int max_groups = 64;
constexpr int max_peers = 4'096;
constexpr int max_short_list = 512;
constexpr std::size_t max_text = 4'096;

Result<AttemptKey> key_of(const wire::Key& in) {
  AttemptKey key{{in.request_high(), in.request_low()}, {in.prefill_leg(), in.decode_leg()}};
  if (key.request == RequestId{}) return violation("request id is missing");
  if (key.attempt.prefill_leg == 0 || key.attempt.decode_leg == 0) {
    return violation("a leg of the attempt is missing");
  }
  return key;
}

Digest128 digest_of(const wire::Digest& in) { return {in.high(), in.low()}; }

Result<Digest256> digest256_of(const std::string& in) {
  Digest256 out;
  if (in.size() != out.bytes.size()) return violation("a digest is not 32 bytes");
  std::copy(in.begin(), in.end(), out.bytes.begin());
  return out;
}

Result<std::string> text_of(const std::string& in) {
  if (in.size() > max_text) return violation("a text is longer than 4096 bytes");
  return in;
}

Reason reason_of(std::uint32_t number) {
  return reason_from_number(number).value_or(Reason::internal);
}

Result<Role> role_of(std::uint32_t number) {
  if (number < 1 || number > 3) return violation("unknown role " + std::to_string(number));
  return static_cast<Role>(number);
}

bool finite(const wire::Sampling& in) {
  for (float value : {in.temperature(), in.top_p(), in.min_p(), in.repetition_penalty(),
                      in.presence_penalty(), in.frequency_penalty()}) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

Result<Sampling> sampling_of(const wire::Sampling& in) {
  if (!finite(in)) return violation("a sampling parameter is not finite");
  if (in.max_tokens() < 1) return violation("max_tokens is below 1");
  if (in.stop_ids_size() > max_short_list || in.logit_bias_size() > max_short_list) {
    return violation("too many stop ids or biases");
  }
  Sampling out;
  out.temperature = in.temperature();
  out.top_k = in.top_k();
  out.top_p = in.top_p();
  out.min_p = in.min_p();
  out.repetition_penalty = in.repetition_penalty();
  out.presence_penalty = in.presence_penalty();
  out.frequency_penalty = in.frequency_penalty();
  out.seed = in.seed();
  out.max_tokens = in.max_tokens();
  out.min_tokens = in.min_tokens();
  out.ignore_eos = in.ignore_eos();
  out.stop_ids.assign(in.stop_ids().begin(), in.stop_ids().end());
  for (const wire::Bias& bias : in.logit_bias())
    out.logit_bias.emplace_back(bias.id(), bias.bias());
  out.logprobs = in.logprobs();
  out.logits_digest = in.logits_digest();
  return out;
}

Result<Work> work_of(const wire::Work& in) {
  const std::size_t ids = static_cast<std::size_t>(in.prompt_ids_size()) +
                          static_cast<std::size_t>(in.generated_ids_size());
  if (ids > max_ids) return violation("more than 200000 ids");
  if (in.prompt_ids_size() == 0) return violation("the prompt is empty");
  if (in.deadline_ms() < 0 || in.deadline_ms() > max_ms) {
    return violation("the deadline is out of range");
  }
  Work out;
  out.prompt_ids.assign(in.prompt_ids().begin(), in.prompt_ids().end());
  out.generated_ids.assign(in.generated_ids().begin(), in.generated_ids().end());
  BATON_ASSIGN(out.sampling, sampling_of(in.sampling()));
  out.deadline_ms = in.deadline_ms();
  if (!in.prefix_root().empty()) {
    BATON_ASSIGN(out.prefix_root, digest256_of(in.prefix_root()));
  }
  return out;
}

Result<Grant> grant_of(const wire::Grant& in) {
  if (in.groups_size() > max_groups) return violation("too many layer groups in a grant");
  if (in.length() < 1) return violation("a grant's length is below 1");
  Grant out{in.id(), in.length(), {}};
  for (const wire::GrantGroup& group : in.groups()) {
    if (group.slots_size() > max_runs) return violation("too many slot runs in a grant");
    if (group.block_units() < 1 || group.block_units() > 4096) {
      return violation("a grant's block size is out of range");
    }
    GrantGroup& to = out.groups.emplace_back();
    to.group = group.group();
    to.block_units = group.block_units();
    to.first_unit = group.first_unit();
    to.held_units = group.held_units();
    for (const wire::SlotRun& run : group.slots()) {
      if (run.count() < 1) return violation("an empty slot run");
      to.slots.push_back({run.first(), run.count(), run.generation()});
    }
  }
  return out;
}

PhaseTimes times_of(const wire::PhaseTimes& in) {
  return {duration_of(in.queue_ns()),           duration_of(in.prefill_ns()),
          duration_of(in.handoff_exposed_ns()), duration_of(in.first_decode_ns()),
          duration_of(in.decode_ns()),          duration_of(in.commit_held_ns())};
}

Result<Tokens> tokens_of(const wire::Tokens& in) {
  if (static_cast<std::size_t>(in.ids_size()) > max_ids) return violation("too many token ids");
  if (in.digests_size() != 0 && in.digests_size() != in.ids_size()) {
    return violation("digests and ids differ in number");
  }
  if (in.logprobs_size() != 0 && in.logprobs_size() != in.ids_size()) {
    return violation("logprobs and ids differ in number");
  }
  Tokens out;
  BATON_ASSIGN(out.key, key_of(in.key()));
  BATON_ASSIGN(out.first_index, index_of(in.first_index()));
  out.ids.assign(in.ids().begin(), in.ids().end());
  for (const wire::Digest& digest : in.digests()) out.digests.push_back(digest_of(digest));
  for (const wire::Logprob& logprob : in.logprobs()) {
    if (logprob.top_size() > max_short_list) return violation("too many top logprobs");
    Tokens::Logprob& to = out.logprobs.emplace_back();
    to.chosen = logprob.chosen();
    for (const wire::Bias& top : logprob.top()) to.top.emplace_back(top.id(), top.bias());
  }
  out.times = times_of(in.times());
  out.cached_tokens = count_of(in.cached_tokens());
  return out;
}

Result<std::vector<AttemptKey>> keys_of(const wire::Keys& in) {
  if (in.keys_size() > max_keys) return violation("too many keys");
  std::vector<AttemptKey> out;
  for (const wire::Key& key : in.keys()) {
    BATON_ASSIGN(AttemptKey native, key_of(key));
    out.push_back(native);
  }
  return out;
}

Result<Message> from(const wire::Hello& in) {
  if (in.transports_size() > max_short_list) return violation("too many transports");
  Hello out;
  out.version = in.version();
  BATON_ASSIGN(out.role, role_of(in.role()));
  BATON_ASSIGN(std::string node, text_of(in.node()));
  if (node.empty()) return violation("the node id is empty");
  out.node = NodeId(node);
  if (!in.fingerprint().empty()) {
    BATON_ASSIGN(out.fingerprint, digest256_of(in.fingerprint()));
  }
  for (const std::string& transport : in.transports()) {
    BATON_ASSIGN(std::string text, text_of(transport));
    out.transports.push_back(std::move(text));
  }
  BATON_ASSIGN(out.host, text_of(in.host()));
  return Message(std::move(out));
}

Result<WorkerInfo> worker_of(const wire::WorkerInfo& in) {
  if (in.transports_size() > max_short_list) return violation("too many transports");
  WorkerInfo out;
  BATON_ASSIGN(out.model, text_of(in.model()));
  BATON_ASSIGN(out.numerics_class, text_of(in.numerics_class()));
  BATON_ASSIGN(out.kernel_set, text_of(in.kernel_set()));
  BATON_ASSIGN(out.cache_dtype, text_of(in.cache_dtype()));
  out.context_length = count_of(in.context_length());
  out.cache_tokens = count_of(in.cache_tokens());
  BATON_ASSIGN(out.control_address, text_of(in.control_address()));
  BATON_ASSIGN(out.admin_url, text_of(in.admin_url()));
  BATON_ASSIGN(out.bundle_digest, text_of(in.bundle_digest()));
  for (const std::string& transport : in.transports()) {
    BATON_ASSIGN(std::string text, text_of(transport));
    out.transports.push_back(std::move(text));
  }
  out.prefill_suffix_tokens = count_of(in.prefill_suffix_tokens());
  out.prefix_cache = !in.no_prefix_cache();
  return out;
}

Result<Message> from(const wire::HelloAck& in) {
  if (in.fingerprint_fields_size() > max_short_list) return violation("too many fields");
  HelloAck out;
  out.version = in.version();
  BATON_ASSIGN(out.role, role_of(in.role()));
  BATON_ASSIGN(std::string node, text_of(in.node()));
  out.node = NodeId(node);
  BATON_ASSIGN(out.fingerprint, digest256_of(in.fingerprint()));
  for (const wire::Pair& field : in.fingerprint_fields()) {
    BATON_ASSIGN(std::string name, text_of(field.name()));
    BATON_ASSIGN(std::string value, text_of(field.value()));
    out.fingerprint_fields.emplace_back(std::move(name), std::move(value));
  }
  BATON_ASSIGN(out.worker, worker_of(in.worker()));
  if (in.has_data()) {
    DataLink data;
    BATON_ASSIGN(data.transport, text_of(in.data().transport()));
    BATON_ASSIGN(data.address, text_of(in.data().address()));
    data.token = {in.data().token().high(), in.data().token().low()};
    data.secret = {in.data().secret().high(), in.data().secret().low()};
    BATON_ASSIGN(data.why, text_of(in.data().why()));
    out.data = std::move(data);
  }
  return Message(std::move(out));
}

Result<Message> hello_refused(const wire::Ended& in) {
  BATON_ASSIGN(std::string message, text_of(in.message()));
  return Message(HelloRefused{reason_of(in.reason()), std::move(message)});
}

Result<Message> from(const wire::Reserve& in) {
  Reserve out;
  BATON_ASSIGN(out.key, key_of(in.key()));
  BATON_ASSIGN(out.work, work_of(in.work()));
  BATON_ASSIGN(out.lease_ms, lease_of(in.lease_ms()));
  out.prompt_ready = in.prompt_ready();
  out.may_compute = in.may_compute();
  return Message(std::move(out));
}

Result<Message> from(const wire::Prefill& in) {
  Prefill out;
  BATON_ASSIGN(out.key, key_of(in.key()));
  BATON_ASSIGN(out.work, work_of(in.work()));
  BATON_ASSIGN(out.lease_ms, lease_of(in.lease_ms()));
  out.needs_target = in.needs_target();
  return Message(std::move(out));
}

Result<Message> from(const wire::Target& in) {
  Target out;
  BATON_ASSIGN(out.key, key_of(in.key()));
  BATON_ASSIGN(std::string node, text_of(in.node()));
  out.node = NodeId(node);
  out.epoch = Epoch(in.epoch());
  BATON_ASSIGN(out.grant, grant_of(in.grant()));
  return Message(std::move(out));
}

/// Messages that are nothing but a key.
template <typename T>
Result<Message> from_key(const wire::Key& in) {
  BATON_ASSIGN(AttemptKey key, key_of(in));
  return Message(T{key});
}

Result<Message> from(const wire::Resume& in) {
  BATON_ASSIGN(AttemptKey key, key_of(in.key()));
  BATON_ASSIGN(const std::int32_t next_index, index_of(in.next_index()));
  return Message(Resume{key, next_index});
}

Result<Message> from(const wire::Heartbeat& in) {
  BATON_ASSIGN(const std::int64_t lease_ms, lease_of(in.lease_ms()));
  return Message(Heartbeat{lease_ms});
}

Result<Message> from(const wire::Peers& in) {
  if (in.decode_size() > max_peers) return violation("too many peers");
  Peers out;
  for (const wire::Peers::Peer& peer : in.decode()) {
    BATON_ASSIGN(std::string node, text_of(peer.node()));
    BATON_ASSIGN(std::string address, text_of(peer.control_address()));
    out.decode.push_back({NodeId(node), Epoch(peer.epoch()), std::move(address)});
  }
  return Message(std::move(out));
}

Result<Message> from(const wire::Granted& in) {
  Granted out;
  BATON_ASSIGN(out.key, key_of(in.key()));
  BATON_ASSIGN(out.grant, grant_of(in.grant()));
  return Message(std::move(out));
}

Result<Message> refused(const wire::Ended& in) {
  Refused out;
  BATON_ASSIGN(out.key, key_of(in.key()));
  out.reason = reason_of(in.reason());
  BATON_ASSIGN(out.message, text_of(in.message()));
  out.retry_after_ms = std::clamp<std::int64_t>(in.retry_after_ms(), 0, max_ms);
  return Message(std::move(out));
}

Result<Message> from(const wire::Finished& in) {
  Finished out;
  BATON_ASSIGN(out.key, key_of(in.key()));
  if (in.finish() < 1 || in.finish() > 4) return violation("unknown finish");
  out.finish = static_cast<FinishReason>(in.finish());
  out.reason = reason_of(in.reason());
  BATON_ASSIGN(out.message, text_of(in.message()));
  BATON_ASSIGN(out.tokens, index_of(in.tokens()));
  out.times = times_of(in.times());
  const wire::StepFacts& facts = in.facts();
  out.facts = {count_of(facts.prompt_rows()), count_of(facts.first_step_rows()),
               count_of(facts.cache_before()), count_of(facts.cache_after()),
               count_of(facts.recomputed_rows())};
  return Message(std::move(out));
}

Result<Message> from(const wire::Owned& in) {
  BATON_ASSIGN(AttemptKey key, key_of(in.key()));
  BATON_ASSIGN(const std::int32_t next_index, index_of(in.next_index()));
  return Message(Owned{key, next_index});
}

Result<Message> from(const wire::HandoffEnded& in) {
  HandoffEnded out;
  BATON_ASSIGN(out.key, key_of(in.key()));
  out.accepted = in.accepted();
  out.reason = reason_of(in.reason());
  BATON_ASSIGN(out.message, text_of(in.message()));
  const wire::HandoffFacts& facts = in.facts();
  BATON_ASSIGN(out.facts.transport, text_of(facts.transport()));
  out.facts.units = count_of(facts.units());
  out.facts.bytes = count_of(facts.bytes());
  out.facts.held_units = count_of(facts.held_units());
  out.facts.exposed = duration_of(facts.exposed_ns());
  out.facts.answered = duration_of(facts.answered_ns());
  out.facts.total = duration_of(facts.total_ns());
  out.facts.first_unit_sent = duration_of(facts.first_unit_sent_ns());
  out.facts.last_layer_computed = duration_of(facts.last_layer_computed_ns());
  return Message(std::move(out));
}

Result<Message> from(const wire::Report& in) {
  const wire::Load& load = in.load();
  Report out;
  out.load.queued = count_of(load.queued());
  out.load.running = count_of(load.running());
  out.load.handoffs = count_of(load.handoffs());
  out.load.backlog_tokens = count_of(load.backlog_tokens());
  out.load.backlog = duration_of(load.backlog_ns());
  out.load.free_tokens = count_of(load.free_tokens());
  out.load.capacity_tokens = count_of(load.capacity_tokens());
  out.draining = in.draining();
  return Message(out);
}

Result<Message> from(const wire::BundlePart& in) {
  if (in.count() < 1 || in.index() >= in.count()) return violation("a bundle part is out of range");
  return Message(BundlePart{in.index(), in.count(), in.bytes()});
}

Result<ComponentRoot> root_of(const wire::ComponentRoot& in) {
  // An unknown component is kept as a number: the receiver refuses it with a reason of its own.
  if (in.component() > 255) return violation("a component number is out of range");
  return ComponentRoot{static_cast<Component>(in.component()),
                       in.group(),
                       in.dtype(),
                       in.unit_bytes(),
                       in.layers(),
                       in.first_unit(),
                       in.units(),
                       digest_of(in.root())};
}

Result<Message> from(const wire::Commit& in) {
  if (in.components_size() > max_short_list) return violation("too many components");
  Commit out;
  BATON_ASSIGN(out.key, key_of(in.key()));
  out.grant = in.grant();
  out.length = in.length();
  BATON_ASSIGN(out.fingerprint, digest256_of(in.fingerprint()));
  for (const wire::ComponentRoot& root : in.components()) {
    BATON_ASSIGN(ComponentRoot native, root_of(root));
    out.components.push_back(native);
  }
  BATON_ASSIGN(out.first_index, index_of(in.first_index()));
  BATON_ASSIGN(out.tokens, tokens_of(in.tokens()));
  return Message(std::move(out));
}

Result<Message> from(const wire::CommitRefused& in) {
  if (in.bad_size() > max_runs) return violation("too many unit ranges");
  CommitRefused out;
  BATON_ASSIGN(out.key, key_of(in.key()));
  out.reason = reason_of(in.reason());
  BATON_ASSIGN(out.message, text_of(in.message()));
  for (const wire::UnitRange& range : in.bad()) {
    if (range.component() < 1 || range.component() > 2) return violation("unknown component");
    out.bad.push_back(
        {static_cast<Component>(range.component()), range.layer(), range.first(), range.count()});
  }
  return Message(std::move(out));
}

template <typename T>
Result<Message> from_keys(const wire::Keys& in) {
  BATON_ASSIGN(std::vector<AttemptKey> keys, keys_of(in));
  return Message(T{std::move(keys)});
}

Result<Message> from_tokens(const wire::Tokens& in) {
  BATON_ASSIGN(Tokens tokens, tokens_of(in));
  return Message(std::move(tokens));
}

}  // namespace

Result<Message> from_wire(const wire::Envelope& in) {
  switch (in.message_case()) {
    case wire::Envelope::kHello:
      return from(in.hello());
    case wire::Envelope::kHelloAck:
      return from(in.hello_ack());
    case wire::Envelope::kHelloRefused:
      return hello_refused(in.hello_refused());
    case wire::Envelope::kReserve:
      return from(in.reserve());
    case wire::Envelope::kPrefill:
      return from(in.prefill());
    case wire::Envelope::kTarget:
      return from(in.target());
    case wire::Envelope::kCancel:
      return from_key<Cancel>(in.cancel());
    case wire::Envelope::kRelease:
      return from_key<Release>(in.release());
    case wire::Envelope::kResume:
      return from(in.resume());
    case wire::Envelope::kHeartbeat:
      return from(in.heartbeat());
    case wire::Envelope::kPeers:
      return from(in.peers());
    case wire::Envelope::kUnknown:
      return from_keys<Unknown>(in.unknown());
    case wire::Envelope::kBundleRequest:
      return Message(BundleRequest{});
    case wire::Envelope::kGranted:
      return from(in.granted());
    case wire::Envelope::kRefused:
      return refused(in.refused());
    case wire::Envelope::kTokens:
      return from_tokens(in.tokens());
    case wire::Envelope::kFinished:
      return from(in.finished());
    case wire::Envelope::kOwned:
      return from(in.owned());
    case wire::Envelope::kHandoffEnded:
      return from(in.handoff_ended());
    case wire::Envelope::kGone:
      return from_key<Gone>(in.gone());
    case wire::Envelope::kReport:
      return from(in.report());
    case wire::Envelope::kInventory:
      return from_keys<Inventory>(in.inventory());
    case wire::Envelope::kBundlePart:
      return from(in.bundle_part());
    case wire::Envelope::kCommit:
      return from(in.commit());
    case wire::Envelope::kAccepted:
      return from_key<Accepted>(in.accepted());
    case wire::Envelope::kCommitRefused:
      return from(in.commit_refused());
    case wire::Envelope::MESSAGE_NOT_SET:
      break;
  }
  return violation("unknown kind of message");
}

}  // namespace baton::protocol

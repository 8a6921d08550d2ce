// Native to wire: one overload a type, in the order of messages.h.
#include "wire.h"

namespace baton::protocol {
namespace {

void put(const AttemptKey& key, wire::Key* out) {
  out->set_request_high(key.request.high);
  out->set_request_low(key.request.low);
  out->set_prefill_leg(key.attempt.prefill_leg);
  out->set_decode_leg(key.attempt.decode_leg);
}

void put(const Digest128& digest, wire::Digest* out) {
  out->set_high(digest.high);
  out->set_low(digest.low);
}

void put(const RequestId& id, wire::Digest* out) {
  out->set_high(id.high);
  out->set_low(id.low);
}

std::string bytes_of(const Digest256& digest) {
  return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
}

void put(const Sampling& in, wire::Sampling* out) {
  out->set_temperature(in.temperature);
  out->set_top_k(in.top_k);
  out->set_top_p(in.top_p);
  out->set_min_p(in.min_p);
  out->set_repetition_penalty(in.repetition_penalty);
  out->set_presence_penalty(in.presence_penalty);
  out->set_frequency_penalty(in.frequency_penalty);
  out->set_seed(in.seed);
  out->set_max_tokens(in.max_tokens);
  out->set_min_tokens(in.min_tokens);
  out->set_ignore_eos(in.ignore_eos);
  out->mutable_stop_ids()->Assign(in.stop_ids.begin(), in.stop_ids.end());
  for (const auto& [id, bias] : in.logit_bias) {
    wire::Bias* entry = out->add_logit_bias();
    entry->set_id(id);
    entry->set_bias(bias);
  }
  out->set_logprobs(in.logprobs);
  out->set_logits_digest(in.logits_digest);
}

void put(const Work& in, wire::Work* out) {
  out->mutable_prompt_ids()->Assign(in.prompt_ids.begin(), in.prompt_ids.end());
  out->mutable_generated_ids()->Assign(in.generated_ids.begin(), in.generated_ids.end());
  put(in.sampling, out->mutable_sampling());
  out->set_deadline_ms(in.deadline_ms);
  if (in.prefix_root) out->set_prefix_root(bytes_of(*in.prefix_root));
}

void put(const Grant& in, wire::Grant* out) {
  out->set_id(in.id);
  out->set_length(in.length);
  for (const GrantGroup& group : in.groups) {
    wire::GrantGroup* entry = out->add_groups();
    entry->set_group(group.group);
    entry->set_block_units(group.block_units);
    entry->set_first_unit(group.first_unit);
    entry->set_held_units(group.held_units);
    for (const SlotRun& run : group.slots) {
      wire::SlotRun* slot = entry->add_slots();
      slot->set_first(run.first);
      slot->set_count(run.count);
      slot->set_generation(run.generation);
    }
  }
}

void put(const PhaseTimes& in, wire::PhaseTimes* out) {
  out->set_queue_ns(in.queue.count());
  out->set_prefill_ns(in.prefill.count());
  out->set_handoff_exposed_ns(in.handoff_exposed.count());
  out->set_first_decode_ns(in.first_decode.count());
  out->set_decode_ns(in.decode.count());
  out->set_commit_held_ns(in.commit_held.count());
}

void put(const Tokens& in, wire::Tokens* out) {
  put(in.key, out->mutable_key());
  out->set_first_index(in.first_index);
  out->mutable_ids()->Assign(in.ids.begin(), in.ids.end());
  for (const Digest128& digest : in.digests) put(digest, out->add_digests());
  for (const Tokens::Logprob& logprob : in.logprobs) {
    wire::Logprob* entry = out->add_logprobs();
    entry->set_chosen(logprob.chosen);
    for (const auto& [id, value] : logprob.top) {
      wire::Bias* top = entry->add_top();
      top->set_id(id);
      top->set_bias(value);
    }
  }
  put(in.times, out->mutable_times());
  out->set_cached_tokens(in.cached_tokens);
}

void put(const WorkerInfo& in, wire::WorkerInfo* out) {
  out->set_model(in.model);
  out->set_numerics_class(in.numerics_class);
  out->set_kernel_set(in.kernel_set);
  out->set_cache_dtype(in.cache_dtype);
  out->set_context_length(in.context_length);
  out->set_cache_tokens(in.cache_tokens);
  out->set_control_address(in.control_address);
  out->set_admin_url(in.admin_url);
  out->set_bundle_digest(in.bundle_digest);
  for (const std::string& transport : in.transports) out->add_transports(transport);
  out->set_prefill_suffix_tokens(in.prefill_suffix_tokens);
  out->set_no_prefix_cache(!in.prefix_cache);
}

void put(const DataLink& in, wire::DataLink* out) {
  out->set_transport(in.transport);
  out->set_address(in.address);
  put(in.token, out->mutable_token());
  put(in.secret, out->mutable_secret());
  out->set_why(in.why);
}

void put(Reason reason, const std::string& message, wire::Ended* out) {
  out->set_reason(static_cast<std::uint32_t>(reason));
  out->set_message(message);
}

void put(const UnitRange& in, wire::UnitRange* out) {
  out->set_component(static_cast<std::uint32_t>(in.component));
  out->set_layer(in.layer);
  out->set_first(in.first);
  out->set_count(in.count);
}

void put(const ComponentRoot& in, wire::ComponentRoot* out) {
  out->set_component(static_cast<std::uint32_t>(in.component));
  out->set_group(in.group);
  out->set_dtype(in.dtype);
  out->set_unit_bytes(in.unit_bytes);
  out->set_layers(in.layers);
  out->set_first_unit(in.first_unit);
  out->set_units(in.units);
  put(in.root, out->mutable_root());
}

/// One call operator a message.
struct ToWire {
  wire::Envelope& out;

  void operator()(const Hello& in) const {
    wire::Hello* to = out.mutable_hello();
    to->set_version(in.version);
    to->set_role(static_cast<std::uint32_t>(in.role));
    to->set_node(in.node.value());
    if (in.fingerprint) to->set_fingerprint(bytes_of(*in.fingerprint));
    for (const std::string& transport : in.transports) to->add_transports(transport);
    to->set_host(in.host);
  }
  void operator()(const HelloAck& in) const {
    wire::HelloAck* to = out.mutable_hello_ack();
    to->set_version(in.version);
    to->set_role(static_cast<std::uint32_t>(in.role));
    to->set_node(in.node.value());
    to->set_fingerprint(bytes_of(in.fingerprint));
    for (const auto& [name, value] : in.fingerprint_fields) {
      wire::Pair* field = to->add_fingerprint_fields();
      field->set_name(name);
      field->set_value(value);
    }
    put(in.worker, to->mutable_worker());
    if (in.data) put(*in.data, to->mutable_data());
  }
  void operator()(const HelloRefused& in) const {
    put(in.reason, in.message, out.mutable_hello_refused());
  }
  void operator()(const Reserve& in) const {
    wire::Reserve* to = out.mutable_reserve();
    put(in.key, to->mutable_key());
    put(in.work, to->mutable_work());
    to->set_lease_ms(in.lease_ms);
    to->set_prompt_ready(in.prompt_ready);
    to->set_may_compute(in.may_compute);
  }
  void operator()(const Prefill& in) const {
    wire::Prefill* to = out.mutable_prefill();
    put(in.key, to->mutable_key());
    put(in.work, to->mutable_work());
    to->set_lease_ms(in.lease_ms);
    to->set_needs_target(in.needs_target);
  }
  void operator()(const Target& in) const {
    wire::Target* to = out.mutable_target();
    put(in.key, to->mutable_key());
    to->set_node(in.node.value());
    to->set_epoch(in.epoch.value());
    put(in.grant, to->mutable_grant());
  }
  void operator()(const Cancel& in) const { put(in.key, out.mutable_cancel()); }
  void operator()(const Release& in) const { put(in.key, out.mutable_release()); }
  void operator()(const Resume& in) const {
    put(in.key, out.mutable_resume()->mutable_key());
    out.mutable_resume()->set_next_index(in.next_index);
  }
  void operator()(const Heartbeat& in) const { out.mutable_heartbeat()->set_lease_ms(in.lease_ms); }
  void operator()(const Peers& in) const {
    wire::Peers* to = out.mutable_peers();
    for (const Peers::Peer& peer : in.decode) {
      wire::Peers::Peer* entry = to->add_decode();
      entry->set_node(peer.node.value());
      entry->set_epoch(peer.epoch.value());
      entry->set_control_address(peer.control_address);
    }
  }
  void operator()(const Unknown& in) const { put_keys(in.keys, out.mutable_unknown()); }
  void operator()(const BundleRequest&) const { out.mutable_bundle_request(); }
  void operator()(const Granted& in) const {
    put(in.key, out.mutable_granted()->mutable_key());
    put(in.grant, out.mutable_granted()->mutable_grant());
  }
  void operator()(const Refused& in) const {
    wire::Ended* to = out.mutable_refused();
    put(in.key, to->mutable_key());
    put(in.reason, in.message, to);
    to->set_retry_after_ms(in.retry_after_ms);
  }
  void operator()(const Tokens& in) const { put(in, out.mutable_tokens()); }
  void operator()(const Finished& in) const {
    wire::Finished* to = out.mutable_finished();
    put(in.key, to->mutable_key());
    to->set_finish(static_cast<std::uint32_t>(in.finish));
    to->set_reason(static_cast<std::uint32_t>(in.reason));
    to->set_message(in.message);
    to->set_tokens(in.tokens);
    put(in.times, to->mutable_times());
    wire::StepFacts* facts = to->mutable_facts();
    facts->set_prompt_rows(in.facts.prompt_rows);
    facts->set_first_step_rows(in.facts.first_step_rows);
    facts->set_cache_before(in.facts.cache_before);
    facts->set_cache_after(in.facts.cache_after);
    facts->set_recomputed_rows(in.facts.recomputed_rows);
  }
  void operator()(const Owned& in) const {
    put(in.key, out.mutable_owned()->mutable_key());
    out.mutable_owned()->set_next_index(in.next_index);
  }
  void operator()(const HandoffEnded& in) const {
    wire::HandoffEnded* to = out.mutable_handoff_ended();
    put(in.key, to->mutable_key());
    to->set_accepted(in.accepted);
    to->set_reason(static_cast<std::uint32_t>(in.reason));
    to->set_message(in.message);
    wire::HandoffFacts* facts = to->mutable_facts();
    facts->set_transport(in.facts.transport);
    facts->set_units(in.facts.units);
    facts->set_bytes(in.facts.bytes);
    facts->set_held_units(in.facts.held_units);
    facts->set_exposed_ns(in.facts.exposed.count());
    facts->set_answered_ns(in.facts.answered.count());
    facts->set_total_ns(in.facts.total.count());
    facts->set_first_unit_sent_ns(in.facts.first_unit_sent.count());
    facts->set_last_layer_computed_ns(in.facts.last_layer_computed.count());
  }
  void operator()(const Gone& in) const { put(in.key, out.mutable_gone()); }
  void operator()(const Report& in) const {
    wire::Report* to = out.mutable_report();
    wire::Load* load = to->mutable_load();
    load->set_queued(in.load.queued);
    load->set_running(in.load.running);
    load->set_handoffs(in.load.handoffs);
    load->set_backlog_tokens(in.load.backlog_tokens);
    load->set_backlog_ns(in.load.backlog.count());
    load->set_free_tokens(in.load.free_tokens);
    load->set_capacity_tokens(in.load.capacity_tokens);
    to->set_draining(in.draining);
  }
  void operator()(const Inventory& in) const { put_keys(in.keys, out.mutable_inventory()); }
  void operator()(const BundlePart& in) const {
    wire::BundlePart* to = out.mutable_bundle_part();
    to->set_index(in.index);
    to->set_count(in.count);
    to->set_bytes(in.bytes);
  }
  void operator()(const Commit& in) const {
    wire::Commit* to = out.mutable_commit();
    put(in.key, to->mutable_key());
    to->set_grant(in.grant);
    to->set_length(in.length);
    to->set_fingerprint(bytes_of(in.fingerprint));
    for (const ComponentRoot& root : in.components) put(root, to->add_components());
    to->set_first_index(in.first_index);
    put(in.tokens, to->mutable_tokens());
  }
  void operator()(const Accepted& in) const { put(in.key, out.mutable_accepted()); }
  void operator()(const CommitRefused& in) const {
    wire::CommitRefused* to = out.mutable_commit_refused();
    put(in.key, to->mutable_key());
    to->set_reason(static_cast<std::uint32_t>(in.reason));
    to->set_message(in.message);
    for (const UnitRange& range : in.bad) put(range, to->add_bad());
  }

  static void put_keys(const std::vector<AttemptKey>& keys, wire::Keys* to) {
    for (const AttemptKey& key : keys) put(key, to->add_keys());
  }
};

}  // namespace

void to_wire(const Message& message, wire::Envelope& out) { std::visit(ToWire{out}, message); }

}  // namespace baton::protocol

#include "baton/protocol/codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "wire.h"

namespace baton::protocol {

std::string encode(const Envelope& envelope) {
  wire::Envelope out;
  out.set_from_epoch(envelope.from.value());
  out.set_to_epoch(envelope.to.value());
  to_wire(envelope.message, out);
  return out.SerializeAsString();
}

Result<Envelope> decode(std::string_view bytes) {
  if (bytes.size() > max_message_bytes) {
    return Error(Reason::protocol_violation, "control message of " + std::to_string(bytes.size()) +
                                                 " bytes is larger than the limit");
  }
  constexpr int max_depth = 16;  // R26
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream stream(&array);
  stream.SetRecursionLimit(max_depth);
  wire::Envelope in;
  if (!in.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return Error(Reason::protocol_violation, "control message is malformed");
  }
  BATON_ASSIGN(Message message, from_wire(in));
  const Epoch from(in.from_epoch());
  // Hellos name the sender's epoch; on the wire the envelope's is the only one.
  if (auto* hello = std::get_if<Hello>(&message)) hello->epoch = from;
  if (auto* ack = std::get_if<HelloAck>(&message)) ack->epoch = from;
  return Envelope{from, Epoch(in.to_epoch()), std::move(message)};
}

}  // namespace baton::protocol

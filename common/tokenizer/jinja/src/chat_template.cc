#include "baton/tokenizer/jinja/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include "baton/tokenizer/jinja/json_value.h"

namespace baton::tokenizer::jinja {
namespace {

using Entries = std::vector<std::pair<Value, Value>>;

constexpr std::array<std::string_view, 5> allowed_roles = {"system", "developer", "user",
                                                           "assistant", "tool"};

void add(Entries& entries, std::string_view name, Value value) {
  entries.emplace_back(Value::trusted(std::string(name)), std::move(value));
}

void add_user(Entries& entries, std::string_view name, const std::optional<std::string>& text) {
  if (text) add(entries, name, Value::user(*text));
}

// {"function": {"arguments": "{…}"}} with the arguments as an object.
boost::json::value with_parsed_arguments(boost::json::value call) {
  boost::json::object* object = call.if_object();
  if (object == nullptr) return call;
  boost::json::value* function = object->if_contains("function");
  if (function == nullptr || !function->is_object()) return call;
  boost::json::value* arguments = function->get_object().if_contains("arguments");
  if (arguments == nullptr || !arguments->is_string()) return call;
  boost::json::error_code problem;
  boost::json::value parsed = boost::json::parse(arguments->get_string(), problem);
  if (!problem && parsed.is_object()) *arguments = std::move(parsed);
  return call;
}

Value tool_calls_value(const boost::json::value& calls) {
  if (!calls.is_array()) return value_from_json(calls, Origin::user);
  std::vector<Value> items;
  for (const boost::json::value& call : calls.get_array()) {
    items.push_back(value_from_json(with_parsed_arguments(call), Origin::user));
  }
  return Value::list(std::move(items));
}

Value message_value(const ChatMessage& message) {
  Entries entries;
  add(entries, "role", Value::trusted(message.role));
  add(entries, "content", message.content ? Value::user(*message.content) : Value::none());
  add_user(entries, "name", message.name);
  add_user(entries, "reasoning_content", message.reasoning_content);
  if (message.tool_calls) add(entries, "tool_calls", tool_calls_value(*message.tool_calls));
  add_user(entries, "tool_call_id", message.tool_call_id);
  return Value::dict(std::move(entries));
}

}  // namespace

std::vector<Segment> segments(const Text& text) {
  std::vector<Segment> out;
  std::size_t at = 0;
  const auto add_part = [&](std::size_t end, bool is_user_data) {
    if (end > at) out.push_back({text.view().substr(at, end - at), is_user_data});
    at = end;
  };
  for (const ByteRange& range : text.user_ranges()) {
    add_part(range.begin, false);
    add_part(range.end, true);
  }
  add_part(text.size(), false);
  return out;
}

bool is_allowed_role(std::string_view role) {
  return std::find(allowed_roles.begin(), allowed_roles.end(), role) != allowed_roles.end();
}

ChatTemplate::ChatTemplate(Template parsed, SpecialTokens special_tokens)
    : template_(std::move(parsed)), special_tokens_(std::move(special_tokens)) {}

Result<ChatTemplate> ChatTemplate::create(std::string_view source, SpecialTokens special_tokens) {
  BATON_ASSIGN(Template parsed, Template::parse(source));
  return ChatTemplate(std::move(parsed), std::move(special_tokens));
}

Result<Text> ChatTemplate::render(const ChatRequest& request, const RenderOptions& options) const {
  std::vector<Value> messages;
  messages.reserve(request.messages.size());
  for (const ChatMessage& message : request.messages) {
    if (!is_allowed_role(message.role)) {
      return Error(Reason::invalid_request,
                   "messages[" + std::to_string(messages.size()) +
                       "].role must be system, developer, user, assistant or tool");
    }
    messages.push_back(message_value(message));
  }
  Entries context;
  add(context, "messages", Value::list(std::move(messages)));
  add(context, "tools",
      request.tools ? value_from_json(*request.tools, Origin::user) : Value::none());
  add(context, "documents", Value::none());
  add(context, "add_generation_prompt", Value::boolean(request.add_generation_prompt));
  if (request.enable_thinking) {
    add(context, "enable_thinking", Value::boolean(*request.enable_thinking));
  }
  if (special_tokens_.bos) add(context, "bos_token", Value::trusted(*special_tokens_.bos));
  if (special_tokens_.eos) add(context, "eos_token", Value::trusted(*special_tokens_.eos));
  return template_.render(Value::dict(std::move(context)), options);
}

}  // namespace baton::tokenizer::jinja

// From a chat request to prompt text, by the model's own template. The text says which of its bytes
// users wrote: the tokenizer parses special tokens only in the others (R17, SEC-14).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "baton/base/result.h"
#include "baton/tokenizer/jinja/template.h"
#include "baton/tokenizer/jinja/text.h"

namespace baton::tokenizer::jinja {

/// One message. All but the role is user data; the role is one of the allow-list below, since
/// templates make special tokens of it ("<|" + role + "|>").
struct ChatMessage {
  std::string role;
  std::optional<std::string> content;            ///< none in the template when absent
  std::optional<std::string> name;               ///< absent in the template when absent
  std::optional<std::string> reasoning_content;  ///< the same
  std::optional<std::string> tool_call_id;       ///< the same
  /// OpenAI's array of tool calls. `function.arguments` that is the text of a JSON object is given
  /// to the template as that object, as templates expect it.
  std::optional<boost::json::value> tool_calls;
};

struct ChatRequest {
  std::vector<ChatMessage> messages;
  std::optional<boost::json::value> tools;  ///< OpenAI's array; none in the template when absent
  bool add_generation_prompt = true;
  std::optional<bool> enable_thinking;  ///< undefined in the template when absent
};

/// The model's special tokens as text; the template sees bos_token and eos_token.
struct SpecialTokens {
  std::optional<std::string> bos;
  std::optional<std::string> eos;
};

/// Part of a rendered prompt.
struct Segment {
  std::string_view text;
  bool is_user_data = false;

  friend bool operator==(const Segment&, const Segment&) = default;
};

/// The parts of a text, in order, none empty; views into `text`. They say where special tokens may
/// be parsed and are not to be tokenised one by one: merges go across their edges, as they do in
/// the reference, which sees one string.
std::vector<Segment> segments(const Text& text);

/// Roles that a request may use: system, developer, user, assistant, tool.
bool is_allowed_role(std::string_view role);

/// Immutable; may be used by many threads at once.
class ChatTemplate {
 public:
  /// `source` is the model file's tokenizer.chat_template. Errors: bad_model_file with the line.
  static Result<ChatTemplate> create(std::string_view source, SpecialTokens special_tokens);

  /// Errors: invalid_request, for a role that is not allowed and for all that rendering refuses.
  Result<Text> render(const ChatRequest& request, const RenderOptions& options = {}) const;

 private:
  ChatTemplate(Template parsed, SpecialTokens special_tokens);

  Template template_;
  SpecialTokens special_tokens_;
};

}  // namespace baton::tokenizer::jinja

// Spellings with a meaning in chats, known across model families.
#pragma once

#include <string_view>

namespace baton::tokenizer {

/// A generation ends with it.
bool is_known_end(std::string_view spelling);

/// Written by templates and models only, never by a person: the ends above, their openings, and
/// everything of the form <|…|>. Wide on purpose: it only keeps a user from spelling them.
bool is_chat_marker(std::string_view spelling);

}  // namespace baton::tokenizer

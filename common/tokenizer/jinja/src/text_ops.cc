#include "text_ops.h"

#include <algorithm>
#include <string>
#include <utility>

#include "unicode.h"

namespace baton::tokenizer::jinja {
namespace {

bool is_stripped(char32_t code, std::string_view character, const Text* characters) {
  if (characters == nullptr) return is_space(code);
  // A set of characters, so a single whole one is looked for.
  return characters->view().find(character) != std::string_view::npos;
}

// Applies `map(code, index)` to each character; what it changes keeps the origin.
template <typename Map>
Text map_characters(const Text& text, Map map) {
  Text out;
  std::size_t copied = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text.view(), at);
    const char32_t mapped = map(character.code);
    if (mapped != character.code) {
      std::string bytes;
      append_utf8(bytes, mapped);
      out.append(text, copied, at);
      out.append(bytes, text.origin_at(at));
      copied = at + character.size_bytes;
    }
    at += character.size_bytes;
  }
  out.append(text, copied, text.size());
  return out;
}

std::size_t skip_space(std::string_view bytes, std::size_t at) {
  while (at < bytes.size()) {
    const Character character = character_at(bytes, at);
    if (!is_space(character.code)) break;
    at += character.size_bytes;
  }
  return at;
}

std::size_t skip_word(std::string_view bytes, std::size_t at) {
  while (at < bytes.size()) {
    const Character character = character_at(bytes, at);
    if (is_space(character.code)) break;
    at += character.size_bytes;
  }
  return at;
}

std::vector<Text> split_at_space(const Text& text, std::size_t limit) {
  std::vector<Text> out;
  std::size_t at = skip_space(text.view(), 0);
  while (at < text.size()) {
    if (out.size() == limit) {
      out.push_back(strip(text.slice(at, text.size()), nullptr, false, true));
      break;
    }
    const std::size_t end = skip_word(text.view(), at);
    out.push_back(text.slice(at, end));
    at = skip_space(text.view(), end);
  }
  return out;
}

std::vector<ByteRange> words(const Text& text) {
  std::vector<ByteRange> out;
  for (std::size_t at = skip_space(text.view(), 0); at < text.size();) {
    const std::size_t end = skip_word(text.view(), at);
    out.push_back({at, end});
    at = skip_space(text.view(), end);
  }
  return out;
}

std::vector<std::size_t> occurrences(std::string_view bytes, std::string_view wanted) {
  std::vector<std::size_t> out;
  for (std::size_t at = 0; (at = find_bytes(bytes, wanted, at)) != std::string_view::npos;
       at += wanted.size()) {
    out.push_back(at);
  }
  return out;
}

}  // namespace

Text strip(const Text& text, const Text* characters, bool left, bool right) {
  const std::string_view bytes = text.view();
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  while (left && begin < end) {
    const Character character = character_at(bytes, begin);
    const auto whole = bytes.substr(begin, character.size_bytes);
    if (!is_stripped(character.code, whole, characters)) break;
    begin += character.size_bytes;
  }
  while (right && end > begin) {
    const std::size_t start = previous_start(bytes, end);
    const auto whole = bytes.substr(start, end - start);
    if (!is_stripped(character_at(bytes, start).code, whole, characters)) break;
    end = start;
  }
  return text.slice(begin, end);
}

Text upper(const Text& text) {
  // The one common letter whose capital form is two letters.
  static const Text sharp_s{"\u00df"};
  static const Text capital_sharp_s{"SS"};
  return map_characters(replace(text, sharp_s, capital_sharp_s, no_limit),
                        [](char32_t code) { return to_upper(code); });
}

Text lower(const Text& text) {
  return map_characters(text, [](char32_t code) { return to_lower(code); });
}

Text capitalize(const Text& text) {
  bool first = true;
  return map_characters(text, [&first](char32_t code) {
    return std::exchange(first, false) ? to_upper(code) : to_lower(code);
  });
}

Text title(const Text& text) {
  bool after_letter = false;
  return map_characters(text, [&after_letter](char32_t code) {
    const char32_t mapped = after_letter ? to_lower(code) : to_upper(code);
    after_letter = is_letter(code);
    return mapped;
  });
}

Text title_words(const Text& text) {
  bool begins = true;
  return map_characters(text, [&begins](char32_t code) {
    const bool separator =
        is_space(code) || (code < 0x80 && std::string_view("-({[<").find(static_cast<char>(code)) !=
                                              std::string_view::npos);
    const char32_t mapped = begins ? to_upper(code) : to_lower(code);
    begins = separator;
    return mapped;
  });
}

Text replace(const Text& text, const Text& from, const Text& to, std::size_t limit) {
  Text out;
  if (from.empty()) {
    // Python puts the new text before each character and behind the last.
    std::size_t at = 0;
    for (std::size_t done = 0; done < limit; ++done) {
      out.append(to);
      if (at >= text.size()) return out;
      const std::size_t next = at + character_at(text.view(), at).size_bytes;
      out.append(text, at, next);
      at = next;
    }
    out.append(text, at, text.size());
    return out;
  }
  std::size_t copied = 0;
  for (std::size_t done = 0; done < limit; ++done) {
    const std::size_t found = find_bytes(text.view(), from.view(), copied);
    if (found == std::string_view::npos) break;
    out.append(text, copied, found);
    out.append(to);
    copied = found + from.size();
  }
  out.append(text, copied, text.size());
  return out;
}

std::vector<Text> split(const Text& text, const Text* separator, std::size_t limit) {
  if (separator == nullptr) return split_at_space(text, limit);
  std::vector<Text> out;
  std::size_t begin = 0;
  while (out.size() < limit) {
    const std::size_t found = find_bytes(text.view(), separator->view(), begin);
    if (found == std::string_view::npos) break;
    out.push_back(text.slice(begin, found));
    begin = found + separator->size();
  }
  out.push_back(text.slice(begin, text.size()));
  return out;
}

std::vector<Text> split_right(const Text& text, const Text* separator, std::size_t limit) {
  std::vector<Text> out;
  std::size_t end = text.size();
  if (separator == nullptr) {
    std::vector<ByteRange> found = words(text);
    while (!found.empty() && out.size() < limit) {
      out.push_back(text.slice(found.back().begin, found.back().end));
      found.pop_back();
    }
    if (!found.empty()) out.push_back(text.slice(0, found.back().end));
  } else {
    while (out.size() < limit) {
      const std::size_t found = end < separator->size()
                                    ? std::string_view::npos
                                    : text.view().rfind(separator->view(), end - separator->size());
      if (found == std::string_view::npos) break;
      out.push_back(text.slice(found + separator->size(), end));
      end = found;
    }
    out.push_back(text.slice(0, end));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  std::vector<Text> out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text.view(), at);
    if (!is_line_break(character.code)) {
      at += character.size_bytes;
      continue;
    }
    std::size_t next = at + character.size_bytes;
    if (character.code == '\r' && next < text.size() && text.view()[next] == '\n') ++next;
    out.push_back(text.slice(begin, keep_ends ? next : at));
    begin = at = next;
  }
  if (begin < text.size()) out.push_back(text.slice(begin, text.size()));
  return out;
}

std::size_t count_occurrences(const Text& text, const Text& wanted) {
  if (wanted.empty()) return count_characters(text.view()) + 1;
  return occurrences(text.view(), wanted.view()).size();
}

}  // namespace baton::tokenizer::jinja

// String operations that keep the origin of every byte that survives. Shared by methods and
// filters.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "baton/tokenizer/jinja/text.h"

namespace baton::tokenizer::jinja {

constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

/// Removes the characters of `characters`, white space without it, from the chosen ends.
Text strip(const Text& text, const Text* characters, bool left, bool right);
Text upper(const Text& text);
Text lower(const Text& text);
/// First character upper case, the rest lower case.
Text capitalize(const Text& text);
/// str.title(): each letter that follows no letter is upper case, others lower case.
Text title(const Text& text);
/// The title filter: words begin behind white space and -({[<.
Text title_words(const Text& text);
/// Up to `limit` non-overlapping occurrences, from the left.
Text replace(const Text& text, const Text& from, const Text& to, std::size_t limit);
/// Splits at white space without `separator` (which is not empty). At most `limit` cuts.
std::vector<Text> split(const Text& text, const Text* separator, std::size_t limit);
/// The same, cutting from the right.
std::vector<Text> split_right(const Text& text, const Text* separator, std::size_t limit);
std::vector<Text> split_lines(const Text& text, bool keep_ends);
std::size_t count_occurrences(const Text& text, const Text& wanted);

}  // namespace baton::tokenizer::jinja

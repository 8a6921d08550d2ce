#include "word_scanner.h"

#include "utf8.h"

namespace baton::tokenizer {
namespace {

bool is_newline(char32_t c) { return c == '\r' || c == '\n'; }

/// The letter that `c` is in a comparison without case; U+017F (long s) folds to s.
char32_t fold(char32_t c) {
  if (c >= 'A' && c <= 'Z') return c + ('a' - 'A');
  return c == 0x17F ? U's' : c;
}

}  // namespace

std::optional<std::string_view> WordScanner::next() {
  if (at_ >= text_.size()) return std::nullopt;
  const std::size_t begin = at_;
  switch (kind_) {
    case PreTokenizer::none:
      at_ = text_.size();
      break;
    case PreTokenizer::gpt2:
      at_ = gpt2_end(begin, text_.size());
      break;
    case PreTokenizer::smollm:
      at_ = smollm_end(begin);
      break;
    case PreTokenizer::llama3:
      at_ = llama3_end(begin, 3);
      break;
    case PreTokenizer::qwen2:
      at_ = llama3_end(begin, 1);
      break;
  }
  return text_.substr(begin, at_ - begin);
}

WordScanner::Char WordScanner::char_at(std::size_t at) const {
  const Utf8Char c = decode_utf8(text_, at);
  // Ill-formed bytes are their own word material: neither letters nor spaces.
  if (c.status != Utf8Status::valid) return {0xFFFD, at + c.length, CharClass::other};
  return {c.code_point, at + c.length, class_of(c.code_point)};
}

std::size_t WordScanner::skip(std::size_t at, std::size_t limit, CharClass kind) const {
  while (at < limit) {
    const Char c = char_at(at);
    if (c.kind != kind) break;
    at = c.end;
  }
  return at;
}

std::size_t WordScanner::contraction(std::size_t at, std::size_t limit, bool any_case) const {
  if (text_[at] != '\'' || at + 1 >= limit) return at;
  const Char first = char_at(at + 1);
  const char32_t a = any_case ? fold(first.code_point) : first.code_point;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return first.end;
  if ((a != 'r' && a != 'v' && a != 'l') || first.end >= limit) return at;
  const Char second = char_at(first.end);
  const char32_t b = any_case ? fold(second.code_point) : second.code_point;
  return b == (a == 'l' ? U'l' : U'e') ? second.end : at;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t WordScanner::gpt2_end(std::size_t at, std::size_t limit) const {
  if (const std::size_t end = contraction(at, limit, false); end != at) return end;
  const Char first = char_at(at);
  if (first.kind != CharClass::space) return skip(first.end, limit, first.kind);
  if (first.code_point == ' ' && first.end < limit) {
    const Char second = char_at(first.end);
    if (second.kind != CharClass::space) return skip(second.end, limit, second.kind);
  }
  return spaces_end(at, limit, false);
}

// \p{N} alone, and the expression of gpt2 on each piece between: its look-ahead ends at the piece.
std::size_t WordScanner::smollm_end(std::size_t at) {
  if (at >= piece_end_) {
    const Char first = char_at(at);
    if (first.kind == CharClass::number) return first.end;
    piece_end_ = first.end;
    while (piece_end_ < text_.size()) {
      const Char c = char_at(piece_end_);
      if (c.kind == CharClass::number) break;
      piece_end_ = c.end;
    }
  }
  return gpt2_end(at, piece_end_);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
std::size_t WordScanner::llama3_end(std::size_t at, int most_digits) const {
  const std::size_t limit = text_.size();
  if (const std::size_t end = contraction(at, limit, true); end != at) return end;
  const Char first = char_at(at);
  if (first.kind == CharClass::letter) return skip(first.end, limit, CharClass::letter);
  if (first.kind == CharClass::number) return numbers_end(first.end, most_digits - 1);
  const bool has_second = first.end < limit;
  const Char second = has_second ? char_at(first.end) : first;
  if (has_second && !is_newline(first.code_point) && second.kind == CharClass::letter) {
    return skip(second.end, limit, CharClass::letter);
  }
  if (first.kind == CharClass::other) return punctuation_end(first.end);
  if (has_second && first.code_point == ' ' && second.kind == CharClass::other) {
    return punctuation_end(second.end);
  }
  return spaces_end(at, limit, true);
}

std::size_t WordScanner::numbers_end(std::size_t at, int most) const {
  for (int i = 0; i < most && at < text_.size(); ++i) {
    const Char c = char_at(at);
    if (c.kind != CharClass::number) break;
    at = c.end;
  }
  return at;
}

std::size_t WordScanner::punctuation_end(std::size_t at) const {
  at = skip(at, text_.size(), CharClass::other);
  while (at < text_.size() && is_newline(static_cast<unsigned char>(text_[at]))) ++at;
  return at;
}

std::size_t WordScanner::spaces_end(std::size_t at, std::size_t limit, bool newlines_first) const {
  std::size_t end = at;
  std::size_t last = at;           // begin of the last space of the run
  std::size_t after_newline = at;  // end of the last newline of the run
  while (end < limit) {
    const Char c = char_at(end);
    if (c.kind != CharClass::space) break;
    last = end;
    end = c.end;
    if (is_newline(c.code_point)) after_newline = end;
  }
  if (newlines_first && after_newline != at) return after_newline;
  if (end < limit && last != at) return last;
  return end;
}

}  // namespace baton::tokenizer

#include "lexer.h"

#include <array>
#include <cctype>
#include <optional>

#include "unicode.h"

namespace baton::tokenizer::jinja {
namespace {

bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

// All line ends become \n; one newline at the very end is dropped, as Jinja2 does by default.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::size_t trailing_space_start(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    const std::size_t start = previous_start(text, end);
    if (!is_space(character_at(text, start).code)) break;
    end = start;
  }
  return end;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)) {}

  Result<std::vector<Token>> run() {
    while (position_ < source_.size()) BATON_TRY(root());
    push(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  struct Opening {
    std::size_t at;
    char kind;  // '%', '{' or '#'
  };

  Result<void> root();
  Result<void> comment();
  Result<void> raw(std::size_t after_begin);
  Result<void> tag(char closing);
  Result<bool> tag_end(char closing);
  Result<void> tag_token();
  Result<void> number();
  Result<void> string();
  Result<void> escape(std::string& out);
  Result<void> numeric_escape(std::string& out, std::size_t digits, int base);
  Result<void> symbol();
  Result<void> balance(char c);

  std::optional<Opening> next_opening() const;
  std::optional<std::size_t> raw_begin(std::size_t at) const;
  struct RawEnd {
    std::size_t at;
    std::string_view sign;
    std::size_t after_name;
  };
  std::optional<RawEnd> raw_end() const;
  void data(std::string_view text, std::string_view sign, bool is_variable);
  std::string_view sign_at(std::size_t at) const;
  // Consumes a closing `%}` or `#}` that may be marked, and the white space it removes.
  bool close(std::string_view closing, bool is_block);
  void skip_spaces();
  void advance(std::size_t count);
  bool at(std::string_view text) const {
    return source_.compare(position_, text.size(), text) == 0;
  }
  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }
  Error fail(std::string_view problem) const { return syntax_error(line_, problem); }

  std::string source_;
  std::size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the text before position_ ended a line
  std::string brackets_;       // open ones of the current tag
  std::vector<Token> tokens_;
};

void Lexer::advance(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) line_ += source_[position_ + i] == '\n' ? 1 : 0;
  position_ += count;
}

void Lexer::skip_spaces() {
  while (position_ < source_.size()) {
    const Character character = character_at(source_, position_);
    if (!is_space(character.code)) break;
    advance(character.size_bytes);
  }
}

std::optional<Lexer::Opening> Lexer::next_opening() const {
  for (std::size_t at = position_; (at = source_.find('{', at)) != std::string::npos; ++at) {
    if (at + 1 >= source_.size()) break;
    const char kind = source_[at + 1];
    if (kind == '%' || kind == '{' || kind == '#') return Opening{at, kind};
  }
  return std::nullopt;
}

std::string_view Lexer::sign_at(std::size_t at) const {
  if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) {
    return std::string_view(source_).substr(at, 1);
  }
  return {};
}

void Lexer::data(std::string_view text, std::string_view sign, bool is_variable) {
  const std::size_t whole = text.size();
  if (sign == "-") {
    text = text.substr(0, trailing_space_start(text));
  } else if (sign != "+" && !is_variable) {
    // lstrip_blocks: only white space between the line's start and the tag goes away.
    const std::size_t line_start = text.rfind('\n') + 1;
    const bool blank = trailing_space_start(text) <= line_start;
    if ((line_start > 0 || line_starting_) && blank) text = text.substr(0, line_start);
  }
  if (!text.empty()) push(TokenKind::data, std::string(text));
  advance(whole);
}

Result<void> Lexer::root() {
  const std::optional<Opening> opening = next_opening();
  const std::string_view rest = std::string_view(source_).substr(position_);
  if (!opening) {
    push(TokenKind::data, std::string(rest));
    advance(rest.size());
    return ok();
  }
  const std::string_view sign = sign_at(opening->at + 2);
  const std::optional<std::size_t> after_raw =
      opening->kind == '%' ? raw_begin(opening->at) : std::nullopt;
  data(rest.substr(0, opening->at - position_), sign, opening->kind == '{');
  if (after_raw) return raw(*after_raw);
  advance(2 + sign.size());
  if (opening->kind == '#') return comment();
  const bool is_block = opening->kind == '%';
  push(is_block ? TokenKind::block_begin : TokenKind::variable_begin, "");
  return tag(is_block ? '%' : '}');
}

// A newline right behind a block or comment is removed (trim_blocks); `-` removes all white space.
bool Lexer::close(std::string_view closing, bool is_block) {
  const std::size_t before = position_;
  const std::string_view sign = sign_at(position_);
  if (source_.compare(position_ + sign.size(), closing.size(), closing) != 0) return false;
  if (sign == "+" && !is_block) return false;
  advance(sign.size() + closing.size());
  if (sign == "-") {
    skip_spaces();
  } else if (sign.empty() && is_block && at("\n")) {
    advance(1);
  }
  line_starting_ = position_ > before && source_[position_ - 1] == '\n';
  return true;
}

Result<void> Lexer::comment() {
  const std::size_t end = source_.find("#}", position_);
  if (end == std::string::npos) return fail("a comment is not closed");
  const bool marked = end > position_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
  advance(end - (marked ? 1 : 0) - position_);
  close("#}", true);
  return ok();
}

std::optional<std::size_t> Lexer::raw_begin(std::size_t at) const {
  const auto skip = [this](std::size_t from) {
    while (from < source_.size() && is_ascii_space(source_[from])) ++from;
    return from;
  };
  std::size_t cursor = skip(at + 2 + sign_at(at + 2).size());
  if (source_.compare(cursor, 3, "raw") != 0) return std::nullopt;
  cursor = skip(cursor + 3);
  if (source_.compare(cursor, 2, "%}") == 0) return cursor + 2;
  if (source_.compare(cursor, 3, "-%}") == 0) return skip(cursor + 3);
  return std::nullopt;
}

std::optional<Lexer::RawEnd> Lexer::raw_end() const {
  for (std::size_t at = position_; (at = source_.find("{%", at)) != std::string::npos; ++at) {
    const std::string_view sign = sign_at(at + 2);
    std::size_t cursor = at + 2 + sign.size();
    while (cursor < source_.size() && is_ascii_space(source_[cursor])) ++cursor;
    if (source_.compare(cursor, 6, "endraw") != 0) continue;
    cursor += 6;
    while (cursor < source_.size() && is_ascii_space(source_[cursor])) ++cursor;
    const std::size_t closing = cursor + sign_at(cursor).size();
    if (source_.compare(closing, 2, "%}") == 0) return RawEnd{at, sign, cursor};
  }
  return std::nullopt;
}

Result<void> Lexer::raw(std::size_t after_begin) {
  advance(after_begin - position_);
  line_starting_ = source_[position_ - 1] == '\n';
  const std::optional<RawEnd> end = raw_end();
  if (!end) return fail("a raw block is not closed");
  data(std::string_view(source_).substr(position_, end->at - position_), end->sign, false);
  advance(end->after_name - position_);
  close("%}", true);
  return ok();
}

Result<void> Lexer::tag(char closing) {
  brackets_.clear();
  while (position_ < source_.size()) {
    skip_spaces();
    if (position_ >= source_.size()) break;
    BATON_ASSIGN(const bool ended, tag_end(closing));
    if (ended) return ok();
    BATON_TRY(tag_token());
  }
  return fail("a tag is not closed");
}

Result<bool> Lexer::tag_end(char closing) {
  if (!brackets_.empty()) return false;
  const bool is_block = closing == '%';
  const int line = line_;
  if (!close(is_block ? "%}" : "}}", is_block)) return false;
  tokens_.push_back({is_block ? TokenKind::block_end : TokenKind::variable_end, line, ""});
  return true;
}

Result<void> Lexer::tag_token() {
  const char c = source_[position_];
  if (is_name_start(c)) {
    std::size_t end = position_;
    while (end < source_.size() && is_name_part(source_[end])) ++end;
    push(TokenKind::name, source_.substr(position_, end - position_));
    advance(end - position_);
    return ok();
  }
  if (c >= '0' && c <= '9') return number();
  if (c == '"' || c == '\'') return string();
  return symbol();
}

Result<void> Lexer::number() {
  std::string digits;
  bool floating = false;
  std::size_t end = position_;
  const auto take_digits = [&] {
    while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) {
      if (source_[end] != '_') digits += source_[end];
      ++end;
    }
  };
  const auto digit_at = [&](std::size_t at) {
    return at < source_.size() && is_digit(source_[at]);
  };
  take_digits();
  // `a.0.1`: a number behind a dot is an index, never a fraction.
  const bool index = position_ > 0 && source_[position_ - 1] == '.';
  if (!index && end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
    floating = true;
    digits += '.';
    ++end;
    take_digits();
  }
  if (!index && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
    const bool has_sign = end + 1 < source_.size() && !sign_at(end + 1).empty();
    if (digit_at(end + 1 + (has_sign ? 1 : 0))) {
      floating = true;
      digits += source_.substr(end, has_sign ? 2 : 1);
      end += has_sign ? 2 : 1;
      take_digits();
    }
  }
  if (!floating && digits.size() > 1 && digits[0] == '0' &&
      digits.find_first_not_of('0') != std::string::npos) {
    return fail("a number begins with 0");
  }
  push(floating ? TokenKind::floating : TokenKind::integer, digits);
  advance(end - position_);
  return ok();
}

Result<void> Lexer::string() {
  const char quote = source_[position_];
  const int line = line_;
  advance(1);
  std::string out;
  while (position_ < source_.size() && source_[position_] != quote) {
    if (source_[position_] == '\\') {
      advance(1);
      BATON_TRY(escape(out));
    } else {
      out += source_[position_];
      advance(1);
    }
  }
  if (position_ >= source_.size()) return syntax_error(line, "a string is not closed");
  advance(1);
  tokens_.push_back({TokenKind::string, line, std::move(out)});
  return ok();
}

// Python's escapes; an unknown one keeps its backslash.
Result<void> Lexer::escape(std::string& out) {
  if (position_ >= source_.size()) return fail("a string is not closed");
  constexpr std::string_view names = "nrtabfv\\'\"";
  constexpr std::string_view values = "\n\r\t\a\b\f\v\\'\"";
  const char c = source_[position_];
  if (const std::size_t found = names.find(c); found != std::string_view::npos) {
    out += values[found];
    advance(1);
    return ok();
  }
  if (c >= '0' && c <= '7') {
    std::size_t digits = 1;
    while (digits < 3 && position_ + digits < source_.size() &&
           source_[position_ + digits] >= '0' && source_[position_ + digits] <= '7') {
      ++digits;
    }
    return numeric_escape(out, digits, 8);
  }
  advance(1);
  if (c == '\n') return ok();
  if (c == 'x') return numeric_escape(out, 2, 16);
  if (c == 'u') return numeric_escape(out, 4, 16);
  if (c == 'U') return numeric_escape(out, 8, 16);
  if (c == 'N') return fail("\\N escapes are not supported");
  out += '\\';
  out += c;
  return ok();
}

Result<void> Lexer::numeric_escape(std::string& out, std::size_t digits, int base) {
  char32_t code = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const char c = position_ < source_.size() ? source_[position_] : '\0';
    if (!std::isxdigit(static_cast<unsigned char>(c))) return fail("an escape is cut off");
    const int digit =
        is_digit(c) ? c - '0' : std::tolower(static_cast<unsigned char>(c)) - 'a' + 10;
    code = code * static_cast<char32_t>(base) + static_cast<char32_t>(digit);
    advance(1);
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    return fail("an escape is no Unicode character");
  }
  append_utf8(out, code);
  return ok();
}

Result<void> Lexer::balance(char c) {
  if (c == '(' || c == '[' || c == '{') {
    brackets_ += c;
    return ok();
  }
  const char opening = c == ')' ? '(' : c == ']' ? '[' : c == '}' ? '{' : '\0';
  if (opening == '\0') return ok();
  if (brackets_.empty() || brackets_.back() != opening) {
    return fail(std::string("unexpected '") + c + "'");
  }
  brackets_.pop_back();
  return ok();
}

Result<void> Lexer::symbol() {
  constexpr std::array<std::string_view, 6> pairs = {"//", "**", "==", "!=", ">=", "<="};
  for (const std::string_view pair : pairs) {
    if (at(pair)) {
      push(TokenKind::symbol, std::string(pair));
      advance(2);
      return ok();
    }
  }
  const char c = source_[position_];
  if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
    return fail("unexpected character");
  }
  BATON_TRY(balance(c));
  push(TokenKind::symbol, std::string(1, c));
  advance(1);
  return ok();
}

}  // namespace

Error syntax_error(int line, std::string_view problem) {
  return {Reason::bad_model_file,
          "chat template, line " + std::to_string(line) + ": " + std::string(problem)};
}

Result<std::vector<Token>> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace baton::tokenizer::jinja

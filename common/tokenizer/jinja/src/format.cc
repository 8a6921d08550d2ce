#include "format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "unicode.h"

namespace baton::tokenizer::jinja {
namespace {

std::string hex(char32_t code, std::size_t digits) {
  std::string out(digits, '0');
  for (std::size_t i = digits; i-- > 0; code >>= 4) out[i] = "0123456789abcdef"[code & 15];
  return out;
}

// Characters that repr() escapes: controls, separators, formats, private use.
bool is_printable(char32_t code) {
  if (code < 0x20 || (code >= 0x7F && code <= 0xA0) || code == 0xAD) return false;
  if (code > 0xA0 && is_space(code)) return false;
  const bool format = (code >= 0x200B && code <= 0x200F) || (code >= 0x202A && code <= 0x202E) ||
                      (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF;
  const bool private_use = (code >= 0xE000 && code <= 0xF8FF) || code >= 0xE0000;
  return !format && !private_use;
}

std::string python_escape(char32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  if (code == '\\') return "\\\\";
  if (code < 0x100) return "\\x" + hex(code, 2);
  if (code < 0x10000) return "\\u" + hex(code, 4);
  return "\\U" + hex(code, 8);
}

std::string json_escape(char32_t code) {
  constexpr std::string_view characters = "\"\\\n\r\t\f\b";
  constexpr std::string_view letters = "\"\\nrtfb";
  if (code < 0x80) {
    const std::size_t found = characters.find(static_cast<char>(code));
    if (found != std::string_view::npos) return std::string("\\") + letters[found];
  }
  if (code < 0x10000) return "\\u" + hex(code, 4);
  const char32_t rest = code - 0x10000;
  return "\\u" + hex(0xD800 + (rest >> 10), 4) + "\\u" + hex(0xDC00 + (rest & 0x3FF), 4);
}

// Copies a text, with `escape` instead of the characters for which `wanted` holds. An escape has
// the origin of its character.
template <typename Wanted, typename Escape>
void append_escaped(Text& out, const Text& text, Wanted wanted, Escape escape) {
  std::size_t copied = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text.view(), at);
    if (wanted(character.code)) {
      out.append(text, copied, at);
      out.append(escape(character.code), text.origin_at(at));
      copied = at + character.size_bytes;
    }
    at += character.size_bytes;
  }
  out.append(text, copied, text.size());
}

void write_repr(const Text& text, Text& out) {
  const bool has_single = text.view().find('\'') != std::string_view::npos;
  const bool has_double = text.view().find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  const auto wanted = [quote](char32_t code) {
    return code == '\\' || code == static_cast<char32_t>(quote) || !is_printable(code);
  };
  const auto escape = [quote](char32_t code) {
    return code == static_cast<char32_t>(quote) ? std::string("\\") + quote : python_escape(code);
  };
  out.append({&quote, 1});
  append_escaped(out, text, wanted, escape);
  out.append({&quote, 1});
}

Result<void> write_inner(Interpreter& interpreter, const Value& value, Text& out) {
  BATON_TRY(interpreter.charge());
  if (out.size() > interpreter.options().limits.max_output_bytes) {
    return interpreter.fail("the output limit is exceeded");
  }
  if (value.is(Kind::text)) {
    BATON_TRY(interpreter.charge(value.as_text().size()));
    write_repr(value.as_text(), out);
    return ok();
  }
  if (value.is(Kind::undefined)) {
    out.append("Undefined");
    return ok();
  }
  return write_text(interpreter, value, out);
}

Result<void> write_sequence(Interpreter& interpreter, const Value& value, Text& out) {
  const std::vector<Value>& items = value.as_items();
  const bool tuple = value.is(Kind::tuple);
  out.append(tuple ? "(" : "[");
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    BATON_TRY(write_inner(interpreter, items[i], out));
  }
  if (tuple && items.size() == 1) out.append(",");
  out.append(tuple ? ")" : "]");
  return ok();
}

Result<void> write_dict(Interpreter& interpreter, const Dict& dict, Text& out) {
  out.append("{");
  bool first = true;
  for (const auto& [key, value] : dict.entries()) {
    if (!first) out.append(", ");
    first = false;
    BATON_TRY(write_inner(interpreter, key, out));
    out.append(": ");
    BATON_TRY(write_inner(interpreter, value, out));
  }
  out.append("}");
  return ok();
}

void write_json_text(const Text& text, bool ensure_ascii, Text& out) {
  const auto wanted = [ensure_ascii](char32_t code) {
    return code < 0x20 || code == '"' || code == '\\' ||
           (ensure_ascii && code > 0x7E && code <= 0x10FFFF);
  };
  out.append("\"");
  append_escaped(out, text, wanted, json_escape);
  out.append("\"");
}

void write_line(const JsonStyle& style, std::size_t level, Text& out) {
  if (!style.indent) return;
  out.append("\n");
  for (std::size_t i = 0; i < level; ++i) out.append(*style.indent);
}

Result<Text> json_key(Interpreter& interpreter, const Value& key) {
  switch (key.kind()) {
    case Kind::text:
      return key.as_text();
    case Kind::none:
      return Text("null");
    case Kind::boolean:
      return Text(key.as_boolean() ? "true" : "false");
    case Kind::integer:
    case Kind::floating:
      return interpreter.to_text(key);
    default:
      return interpreter.fail("JSON has no key that is " + describe(key));
  }
}

Result<void> write_json_dict(Interpreter& interpreter, const Dict& dict, const JsonStyle& style,
                             std::size_t level, Text& out) {
  std::vector<std::pair<Text, const Value*>> entries;
  for (const auto& [key, value] : dict.entries()) {
    BATON_ASSIGN(Text name, json_key(interpreter, key));
    entries.emplace_back(std::move(name), &value);
  }
  if (style.sort_keys) {
    std::stable_sort(entries.begin(), entries.end(),
                     [](const auto& a, const auto& b) { return a.first.view() < b.first.view(); });
  }
  out.append("{");
  bool first = true;
  for (const auto& [name, value] : entries) {
    if (!first) out.append(style.item_separator);
    first = false;
    write_line(style, level + 1, out);
    BATON_TRY(interpreter.charge(name.size()));
    write_json_text(name, style.ensure_ascii, out);
    out.append(style.key_separator);
    BATON_TRY(write_json(interpreter, *value, style, level + 1, out));
  }
  if (!entries.empty()) write_line(style, level, out);
  out.append("}");
  return ok();
}

Result<void> write_json_list(Interpreter& interpreter, const std::vector<Value>& items,
                             const JsonStyle& style, std::size_t level, Text& out) {
  out.append("[");
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(style.item_separator);
    write_line(style, level + 1, out);
    BATON_TRY(write_json(interpreter, items[i], style, level + 1, out));
  }
  if (!items.empty()) write_line(style, level, out);
  out.append("]");
  return ok();
}

std::string json_double(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return format_double(value);
}

}  // namespace

std::string format_double(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 512> buffer;
  const double size = std::fabs(value);
  const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  std::string out(buffer.data(), end);
  if (!scientific && out.find('.') == std::string::npos) out += ".0";
  return out;
}

Result<void> write_text(Interpreter& interpreter, const Value& value, Text& out) {
  switch (value.kind()) {
    case Kind::undefined:
      return ok();
    case Kind::none:
      out.append("None");
      return ok();
    case Kind::boolean:
      out.append(value.as_boolean() ? "True" : "False");
      return ok();
    case Kind::integer:
      out.append(std::to_string(value.as_integer()));
      return ok();
    case Kind::floating:
      out.append(format_double(value.as_floating()));
      return ok();
    case Kind::text:
      out.append(value.as_text());
      return ok();
    case Kind::list:
    case Kind::tuple:
      return write_sequence(interpreter, value, out);
    case Kind::dict:
      return write_dict(interpreter, value.as_dict(), out);
    case Kind::object:
      return interpreter.fail(describe(value) + " cannot be printed");
  }
  return ok();
}

Result<void> write_json(Interpreter& interpreter, const Value& value, const JsonStyle& style,
                        std::size_t level, Text& out) {
  BATON_TRY(interpreter.charge(value.is(Kind::text) ? value.as_text().size() : level));
  if (out.size() > interpreter.options().limits.max_output_bytes) {
    return interpreter.fail("the output limit is exceeded");
  }
  switch (value.kind()) {
    case Kind::none:
      out.append("null");
      return ok();
    case Kind::boolean:
      out.append(value.as_boolean() ? "true" : "false");
      return ok();
    case Kind::integer:
      out.append(std::to_string(value.as_integer()));
      return ok();
    case Kind::floating:
      out.append(json_double(value.as_floating()));
      return ok();
    case Kind::text:
      write_json_text(value.as_text(), style.ensure_ascii, out);
      return ok();
    case Kind::list:
    case Kind::tuple:
      return write_json_list(interpreter, value.as_items(), style, level, out);
    case Kind::dict:
      return write_json_dict(interpreter, value.as_dict(), style, level, out);
    case Kind::undefined:
    case Kind::object:
      return interpreter.fail("JSON cannot hold " + describe(value));
  }
  return ok();
}

Result<Text> Interpreter::to_text(const Value& value) {
  if (value.is(Kind::text)) return value.as_text();
  Text out;
  BATON_TRY(write_text(*this, value, out));
  return out;
}

}  // namespace baton::tokenizer::jinja

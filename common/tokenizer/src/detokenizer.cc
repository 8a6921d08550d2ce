#include "baton/tokenizer/detokenizer.h"

#include <utility>

#include "utf8.h"

namespace baton::tokenizer {

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string text;
  std::size_t at = 0;
  while (at < held_.size()) {
    const Utf8Char c = decode_utf8(held_, at);
    if (c.status == Utf8Status::incomplete) break;
    if (c.status == Utf8Status::valid) {
      text.append(held_, at, c.length);
    } else {
      text += replacement_character;
    }
    at += c.length;
  }
  held_.erase(0, at);
  return text;
}

std::string Utf8Stream::flush() {
  // What is held is the beginning of one code point: one maximal subpart.
  std::string text(held_.empty() ? std::string_view() : replacement_character);
  held_.clear();
  return text;
}

Detokenizer::Detokenizer(Tokenizer tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)), options_(options) {}

std::string Detokenizer::push(TokenId id) {
  if (options_.skip_special && tokenizer_.is_special(id)) return {};
  std::string_view bytes = tokenizer_.bytes(id);
  const bool has_prefix =
      tokenizer_.spec().algorithm == Algorithm::sentencepiece && tokenizer_.spec().add_space_prefix;
  if (first_ && options_.strip_space_prefix && has_prefix && bytes.starts_with(' ')) {
    bytes.remove_prefix(1);
  }
  first_ = false;
  std::string text = stream_.push(bytes);
  text_bytes_ += text.size();
  return text;
}

std::string Detokenizer::flush() {
  std::string text = stream_.flush();
  text_bytes_ += text.size();
  first_ = true;
  return text;
}

}  // namespace baton::tokenizer

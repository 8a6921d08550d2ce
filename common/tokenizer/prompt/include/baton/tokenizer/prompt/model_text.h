// A model's text side: tokenizer and chat template, from a request's words to prompt ids. Made of a
// worker's bundle, so that it needs no weights.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "baton/tokenizer/jinja/chat_template.h"
#include "baton/tokenizer/tokenizer.h"

namespace baton::tokenizer {

class ModelText {
 public:
  /// `bundle` is what serialise() made. Fails as parse_spec() and Tokenizer::make() do. A chat
  /// template that cannot be used is logged and counts as none.
  static Result<ModelText> make(std::string_view bundle);

  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// Reason::no_chat_template when the model has none.
  Result<std::vector<TokenId>> chat_ids(const jinja::ChatRequest& chat) const;
  /// `add_special`: see EncodeOptions.
  Result<std::vector<TokenId>> text_ids(std::string_view text, bool add_special) const;

 private:
  explicit ModelText(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}

  Tokenizer tokenizer_;
  std::optional<jinja::ChatTemplate> template_;
};

}  // namespace baton::tokenizer

// The model's text side as the router needs it: tokenizer, chat template, limits. Made of a
// worker's bundle.
#pragma once

#include <optional>
#include <string>

#include "baton/router/api/request.h"
#include "baton/tokenizer/jinja/chat_template.h"
#include "baton/tokenizer/tokenizer.h"

namespace baton::router {

class ModelText {
 public:
  static Result<ModelText> make(std::string_view bundle);

  const tokenizer::Tokenizer& tokenizer() const { return tokenizer_; }

  /// Reason::no_chat_template when the model has none.
  Result<std::vector<TokenId>> chat_ids(const tokenizer::jinja::ChatRequest& chat) const;
  Result<std::vector<TokenId>> text_ids(std::string_view text, bool add_special) const;

 private:
  explicit ModelText(tokenizer::Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}

  tokenizer::Tokenizer tokenizer_;
  std::optional<tokenizer::jinja::ChatTemplate> template_;
};

}  // namespace baton::router

#include "baton/tokenizer/prompt/model_text.h"

#include <ctime>

#include "baton/base/log.h"

namespace baton::tokenizer {
namespace {

std::optional<std::string> spelling(const TokenizerSpec& spec, std::optional<TokenId> id) {
  if (!id) return std::nullopt;
  return spec.tokens.at(static_cast<std::size_t>(*id));
}

/// Templates that write today's date ask for it; every router of a cluster gives the same.
jinja::CivilTime utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return {parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
          parts.tm_hour,        parts.tm_min,     parts.tm_sec};
}

}  // namespace

Result<ModelText> ModelText::make(std::string_view bundle) {
  BATON_ASSIGN(TokenizerSpec spec, parse_spec(bundle));
  const std::string source = spec.chat_template;
  const jinja::SpecialTokens special{spelling(spec, spec.bos), spelling(spec, spec.eos)};
  BATON_ASSIGN(Tokenizer tokenizer, Tokenizer::make(std::move(spec)));
  ModelText out(std::move(tokenizer));
  if (source.empty()) return out;
  Result<jinja::ChatTemplate> parsed = jinja::ChatTemplate::create(source, special);
  if (parsed) {
    out.template_.emplace(std::move(*parsed));
  } else {
    log_error("the model's chat template cannot be used: {}", parsed.error().message());
  }
  return out;
}

Result<std::vector<TokenId>> ModelText::chat_ids(const jinja::ChatRequest& chat) const {
  if (!template_) {
    return Error(Reason::no_chat_template, "this model has no chat template; use /v1/completions");
  }
  jinja::RenderOptions options;
  options.now = utc_now();
  BATON_ASSIGN(const jinja::Text text, template_->render(chat, options));
  std::vector<Segment> segments;
  for (const jinja::Segment& part : jinja::segments(text)) {
    segments.push_back({part.text, !part.is_user_data});
  }
  return tokenizer_.encode(segments);
}

Result<std::vector<TokenId>> ModelText::text_ids(std::string_view text, bool add_special) const {
  EncodeOptions options;
  options.add_special = add_special;
  return tokenizer_.encode(text, options);
}

}  // namespace baton::tokenizer

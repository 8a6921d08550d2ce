// TokenizerSpec from the tokenizer.* fields of a GGUF file.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "baton/modelfile/metadata.h"
#include "baton/tokenizer/spec.h"

#include "markers.h"
#include "string_index.h"

namespace baton::tokenizer {
namespace {

using modelfile::bad_field;
using modelfile::Metadata;
using modelfile::printable;

constexpr std::string_view model_key = "tokenizer.ggml.model";
constexpr std::string_view pre_key = "tokenizer.ggml.pre";
constexpr std::string_view tokens_key = "tokenizer.ggml.tokens";
constexpr std::string_view types_key = "tokenizer.ggml.token_type";
constexpr std::string_view scores_key = "tokenizer.ggml.scores";
constexpr std::string_view merges_key = "tokenizer.ggml.merges";
constexpr std::string_view template_key = "tokenizer.chat_template";

struct NamedPreTokenizer {
  std::string_view name;
  PreTokenizer kind;
};

// The names of converters whose expressions are those of the four scanners.
constexpr std::array<NamedPreTokenizer, 10> pre_tokenizers = {{
    {"gpt-2", PreTokenizer::gpt2},
    {"phi-2", PreTokenizer::gpt2},
    {"smollm", PreTokenizer::smollm},
    {"starcoder", PreTokenizer::smollm},
    {"refact", PreTokenizer::smollm},
    {"llama-bpe", PreTokenizer::llama3},
    {"llama3", PreTokenizer::llama3},
    {"llama-v3", PreTokenizer::llama3},
    {"qwen2", PreTokenizer::qwen2},
    {"deepseek-r1-qwen", PreTokenizer::qwen2},
}};

Result<void> read_kind(const Metadata& metadata, TokenizerSpec& spec) {
  BATON_ASSIGN(const std::string_view model, metadata.string(model_key));
  if (model == "llama") {
    spec.algorithm = Algorithm::sentencepiece;
    spec.pre_tokenizer = PreTokenizer::none;
    return ok();
  }
  if (model != "gpt2") {
    return bad_field(model_key, fmt::format("is '{}', which is not supported (gpt2 and llama are)",
                                            printable(model)));
  }
  spec.algorithm = Algorithm::byte_level_bpe;
  BATON_ASSIGN(const std::string_view pre, metadata.string(pre_key));
  for (const NamedPreTokenizer& known : pre_tokenizers) {
    if (known.name != pre) continue;
    spec.pre_tokenizer = known.kind;
    return ok();
  }
  return bad_field(
      pre_key, fmt::format("names the pre-tokenizer '{}', which is not supported", printable(pre)));
}

Result<void> read_tokens(const Metadata& metadata, TokenizerSpec& spec) {
  BATON_ASSIGN(const modelfile::StringArray tokens, metadata.strings(tokens_key));
  if (tokens.size() > max_vocabulary) {
    return bad_field(tokens_key,
                     fmt::format("has {} tokens, more than {}", tokens.size(), max_vocabulary));
  }
  spec.tokens.reserve(tokens.size());
  for (const std::string_view token : tokens) {
    if (token.size() > max_token_bytes) {
      return bad_field(tokens_key, fmt::format("has a token {} of {} bytes, more than {}",
                                               spec.tokens.size(), token.size(), max_token_bytes));
    }
    spec.tokens.emplace_back(token);
  }
  BATON_ASSIGN(const auto types, metadata.find_ints(types_key));
  if (!types) {
    spec.types.assign(spec.tokens.size(), TokenType::normal);
    return ok();
  }
  if (types->size() != spec.tokens.size()) {
    return bad_field(types_key,
                     fmt::format("has {} types for {} tokens", types->size(), spec.tokens.size()));
  }
  spec.types.reserve(types->size());
  for (std::size_t i = 0; i < types->size(); ++i) {
    const std::int64_t type = (*types)[i];
    if (type < 1 || type > 6) {
      return bad_field(types_key, fmt::format("gives token {} the unknown type {}", i, type));
    }
    spec.types.push_back(static_cast<TokenType>(type));
  }
  return ok();
}

Result<void> read_scores(const Metadata& metadata, TokenizerSpec& spec) {
  BATON_ASSIGN(const modelfile::FloatArray scores, metadata.floats(scores_key));
  if (scores.size() != spec.tokens.size()) {
    return bad_field(scores_key,
                     fmt::format("has {} scores for {} tokens", scores.size(), spec.tokens.size()));
  }
  spec.scores.reserve(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) spec.scores.push_back(scores[i]);
  // Both ask for changes of the text before tokenising that we do not make.
  BATON_ASSIGN(const auto squeeze,
               metadata.find_boolean("tokenizer.ggml.remove_extra_whitespaces"));
  if (squeeze.value_or(false)) {
    return bad_field("tokenizer.ggml.remove_extra_whitespaces", "is true, which is not supported");
  }
  if (metadata.contains("tokenizer.ggml.precompiled_charsmap")) {
    return bad_field("tokenizer.ggml.precompiled_charsmap",
                     "asks for a normalisation, which is not supported");
  }
  return ok();
}

/// "left right" as in the file; a space inside a spelling is written otherwise, so there is one.
Result<Merge> parse_merge(std::string_view line, const StringIndex& spellings, std::size_t rank) {
  const std::size_t space = line.find(' ', 1);
  if (space != std::string_view::npos) {
    const auto left = spellings.find(line.substr(0, space));
    const auto right = spellings.find(line.substr(space + 1));
    if (left && right) return Merge{*left, *right};
  }
  return bad_field(merges_key, fmt::format("has a merge {} that is not two tokens", rank));
}

Result<void> read_merges(const Metadata& metadata, TokenizerSpec& spec) {
  BATON_ASSIGN(const modelfile::StringArray merges, metadata.strings(merges_key));
  if (merges.size() > max_merges) {
    return bad_field(merges_key,
                     fmt::format("has {} merges, more than {}", merges.size(), max_merges));
  }
  StringIndex spellings(spec.tokens.size());
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    if (!spec.tokens[i].empty()) spellings.insert(spec.tokens[i], static_cast<TokenId>(i));
  }
  spec.merges.reserve(merges.size());
  for (const std::string_view line : merges) {
    BATON_ASSIGN(const Merge merge, parse_merge(line, spellings, spec.merges.size()));
    spec.merges.push_back(merge);
  }
  return ok();
}

Result<void> read_id(const Metadata& metadata, const TokenizerSpec& spec, std::string_view key,
                     std::optional<TokenId>& id) {
  BATON_ASSIGN(const auto found, metadata.find_u32(key));
  if (!found) return ok();
  if (*found >= spec.tokens.size()) {
    return bad_field(
        key, fmt::format("is {}, outside the vocabulary of {} tokens", *found, spec.tokens.size()));
  }
  id = static_cast<TokenId>(*found);
  return ok();
}

Result<void> read_ids(const Metadata& metadata, TokenizerSpec& spec) {
  BATON_TRY(read_id(metadata, spec, "tokenizer.ggml.bos_token_id", spec.bos));
  BATON_TRY(read_id(metadata, spec, "tokenizer.ggml.eos_token_id", spec.eos));
  BATON_TRY(read_id(metadata, spec, "tokenizer.ggml.eot_token_id", spec.eot));
  BATON_TRY(read_id(metadata, spec, "tokenizer.ggml.eom_token_id", spec.eom));
  BATON_TRY(read_id(metadata, spec, "tokenizer.ggml.unknown_token_id", spec.unknown));
  BATON_TRY(read_id(metadata, spec, "tokenizer.ggml.padding_token_id", spec.padding));
  return ok();
}

/// The flags as the file has them. Without the field: a bos for sentencepiece and for Llama 3,
/// whose converters left it out because it was the rule; none for the rest. Never an eos.
Result<void> read_flags(const Metadata& metadata, TokenizerSpec& spec) {
  const bool is_piece = spec.algorithm == Algorithm::sentencepiece;
  const bool bos_by_default =
      spec.bos.has_value() && (is_piece || spec.pre_tokenizer == PreTokenizer::llama3);
  BATON_ASSIGN(const auto add_bos, metadata.find_boolean("tokenizer.ggml.add_bos_token"));
  spec.add_bos = add_bos.value_or(bos_by_default);
  BATON_ASSIGN(const auto add_eos, metadata.find_boolean("tokenizer.ggml.add_eos_token"));
  spec.add_eos = add_eos.value_or(false);
  BATON_ASSIGN(const auto prefix, metadata.find_boolean("tokenizer.ggml.add_space_prefix"));
  spec.add_space_prefix = is_piece && prefix.value_or(true);
  return ok();
}

void protect_markers(TokenizerSpec& spec) {
  const auto may_change = [&](std::size_t id) {
    return spec.types[id] == TokenType::normal || spec.types[id] == TokenType::user_defined;
  };
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    if (may_change(i) && is_chat_marker(spec.tokens[i])) spec.types[i] = TokenType::control;
  }
  for (const auto& id : {spec.bos, spec.eos, spec.eot, spec.eom}) {
    if (id && may_change(*id)) spec.types[*id] = TokenType::control;
  }
}

}  // namespace

Result<TokenizerSpec> spec_from(const Metadata& metadata) {
  TokenizerSpec spec;
  BATON_TRY(read_kind(metadata, spec));
  BATON_TRY(read_tokens(metadata, spec));
  if (spec.algorithm == Algorithm::sentencepiece) {
    BATON_TRY(read_scores(metadata, spec));
  } else {
    BATON_TRY(read_merges(metadata, spec));
  }
  BATON_TRY(read_ids(metadata, spec));
  BATON_TRY(read_flags(metadata, spec));
  BATON_ASSIGN(const auto chat_template, metadata.find_string(template_key));
  if (chat_template) {
    if (chat_template->size() > max_template_bytes) {
      return bad_field(template_key, fmt::format("has {} bytes, more than {}",
                                                 chat_template->size(), max_template_bytes));
    }
    spec.chat_template = *chat_template;
  }
  protect_markers(spec);
  BATON_TRY(check(spec));
  return spec;
}

}  // namespace baton::tokenizer

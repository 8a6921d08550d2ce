#include "baton/tokenizer/spec.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "markers.h"
#include "token_bytes.h"

namespace baton::tokenizer {
namespace {

Error bad(std::string message) { return {Reason::bad_model_file, "tokenizer: " + message}; }

Result<void> check_token(const TokenizerSpec& spec, std::size_t id) {
  const std::string& spelling = spec.tokens[id];
  if (spelling.size() > max_token_bytes) {
    return bad(
        fmt::format("token {} has {} bytes, more than {}", id, spelling.size(), max_token_bytes));
  }
  switch (spec.types[id]) {
    case TokenType::control:
    case TokenType::unknown:
    case TokenType::user_defined:
      if (spelling.size() > max_marker_bytes) {
        return bad(fmt::format("special token {} has {} bytes, more than {}", id, spelling.size(),
                               max_marker_bytes));
      }
      return ok();
    case TokenType::byte:
      if (!byte_of_spelling(spelling)) {
        return bad(fmt::format("token {} has the type byte but is not spelled <0xNN>", id));
      }
      return ok();
    case TokenType::normal:
    case TokenType::unused:
      return ok();
  }
  return bad(
      fmt::format("token {} has the unknown type {}", id, static_cast<unsigned>(spec.types[id])));
}

Result<void> check_sizes(const TokenizerSpec& spec) {
  const std::size_t count = spec.tokens.size();
  if (count == 0) return bad("the vocabulary is empty");
  if (count > max_vocabulary) {
    return bad(fmt::format("{} tokens, more than {}", count, max_vocabulary));
  }
  if (spec.types.size() != count) {
    return bad(fmt::format("{} token types for {} tokens", spec.types.size(), count));
  }
  const bool scored = spec.algorithm == Algorithm::sentencepiece;
  const std::size_t scores_wanted = scored ? count : 0;
  if (spec.scores.size() != scores_wanted) {
    return bad(fmt::format("{} scores where {} are needed", spec.scores.size(), scores_wanted));
  }
  if (spec.merges.size() > max_merges) {
    return bad(fmt::format("{} merges, more than {}", spec.merges.size(), max_merges));
  }
  if (scored && !spec.merges.empty()) return bad("merges in a vocabulary with scores");
  if (scored != (spec.pre_tokenizer == PreTokenizer::none)) {
    return bad("a pre-tokenizer that does not fit the algorithm");
  }
  if (spec.chat_template.size() > max_template_bytes) {
    return bad(fmt::format("the chat template has {} bytes, more than {}",
                           spec.chat_template.size(), max_template_bytes));
  }
  return ok();
}

Result<void> check_ids(const TokenizerSpec& spec) {
  const auto inside = [&](TokenId id) {
    return id >= 0 && static_cast<std::size_t>(id) < spec.tokens.size();
  };
  const std::pair<const char*, std::optional<TokenId>> named[] = {
      {"bos", spec.bos}, {"eos", spec.eos},         {"eot", spec.eot},
      {"eom", spec.eom}, {"unknown", spec.unknown}, {"padding", spec.padding},
  };
  for (const auto& [name, id] : named) {
    if (id && !inside(*id))
      return bad(fmt::format("{} id {} is outside the vocabulary", name, *id));
  }
  if (spec.add_bos && !spec.bos) return bad("bos is to be added, but there is no bos token");
  if (spec.add_eos && !spec.eos) return bad("eos is to be added, but there is no eos token");
  for (std::size_t i = 0; i < spec.merges.size(); ++i) {
    if (!inside(spec.merges[i].left) || !inside(spec.merges[i].right)) {
      return bad(fmt::format("merge {} names a token outside the vocabulary", i));
    }
  }
  return ok();
}

}  // namespace

Result<void> check(const TokenizerSpec& spec) {
  BATON_TRY(check_sizes(spec));
  BATON_TRY(check_ids(spec));
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) BATON_TRY(check_token(spec, i));
  for (std::size_t i = 0; i < spec.scores.size(); ++i) {
    if (!std::isfinite(spec.scores[i])) return bad(fmt::format("score {} is not finite", i));
  }
  return ok();
}

std::vector<TokenId> end_of_generation_ids(const TokenizerSpec& spec) {
  std::vector<TokenId> ids;
  for (const auto& id : {spec.eos, spec.eot, spec.eom}) {
    if (id) ids.push_back(*id);
  }
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    if (spec.types[i] == TokenType::control && is_known_end(spec.tokens[i])) {
      ids.push_back(static_cast<TokenId>(i));
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace baton::tokenizer

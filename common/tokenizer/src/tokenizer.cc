#include "baton/tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "baton/tokenizer/detokenizer.h"

#include "byte_bpe.h"
#include "marker_trie.h"
#include "piece_bpe.h"
#include "token_bytes.h"

namespace baton::tokenizer {

struct Tokenizer::State {
  TokenizerSpec spec;
  std::vector<std::string> bytes;  ///< by token
  StringIndex spellings;           ///< all tokens
  MarkerTrie special;              ///< control and unknown tokens
  MarkerTrie user_defined;         ///< spaces spelled U+2581 for sentencepiece
  std::vector<TokenId> end_of_generation;
  std::size_t longest_token_bytes = 0;
  std::variant<std::monostate, ByteBpe, PieceBpe> encoder;

  bool is_sentencepiece() const { return spec.algorithm == Algorithm::sentencepiece; }
  void index_tokens();
};

namespace {

/// Encodes one text: collects plain text until a special token ends it.
class Encoding {
 public:
  template <typename State>
  explicit Encoding(const State& state)
      : spec_(state.spec), user_defined_(state.user_defined), encoder_(state.encoder) {}

  void plain(std::string_view text) { pending_ += text; }

  void special(TokenId id) {
    flush();
    ids_.push_back(id);
    at_start_ = true;
  }

  std::vector<TokenId> finish() {
    flush();
    return std::move(ids_);
  }

 private:
  void flush() {
    if (pending_.empty()) return;
    if (spec_.algorithm == Algorithm::sentencepiece) {
      // The first word of a text, and the first after a special token, get the space that all
      // words had in training.
      if (at_start_ && spec_.add_space_prefix) pending_.insert(0, 1, ' ');
      pending_ = spell_spaces(pending_);
    }
    at_start_ = false;
    for (std::size_t at = 0; at < pending_.size();) {
      const auto match = user_defined_.find(pending_, at);
      const std::size_t end = match ? match->begin : pending_.size();
      run(std::string_view(pending_).substr(at, end - at));
      if (match) ids_.push_back(match->id);
      at = match ? end + match->length : end;
    }
    pending_.clear();
  }

  void run(std::string_view text) {
    if (text.empty()) return;
    if (const auto* bytes = std::get_if<ByteBpe>(&encoder_)) bytes->encode(text, merger_, ids_);
    if (const auto* pieces = std::get_if<PieceBpe>(&encoder_)) pieces->encode(text, merger_, ids_);
  }

  const TokenizerSpec& spec_;
  const MarkerTrie& user_defined_;
  const std::variant<std::monostate, ByteBpe, PieceBpe>& encoder_;
  Merger merger_;
  std::vector<TokenId> ids_;
  std::string pending_;
  bool at_start_ = true;
};

/// Feeds a piece that a template wrote: its special tokens and the text between them.
void parse_special_tokens(std::string_view text, const MarkerTrie& special, Encoding& encoding) {
  std::size_t at = 0;
  while (const auto match = special.find(text, at)) {
    encoding.plain(text.substr(at, match->begin - at));
    encoding.special(match->id);
    at = match->begin + match->length;
  }
  encoding.plain(text.substr(at));
}

void add_special_tokens(const TokenizerSpec& spec, std::vector<TokenId>& ids) {
  if (spec.add_bos && spec.bos && (ids.empty() || ids.front() != *spec.bos)) {
    ids.insert(ids.begin(), *spec.bos);
  }
  if (spec.add_eos && spec.eos && (ids.empty() || ids.back() != *spec.eos)) {
    ids.push_back(*spec.eos);
  }
}

}  // namespace

void Tokenizer::State::index_tokens() {
  spellings = StringIndex(spec.tokens.size());
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    longest_token_bytes = std::max(longest_token_bytes, bytes[i].size());
    const std::string& spelling = spec.tokens[i];
    if (spelling.empty()) continue;
    const auto id = static_cast<TokenId>(i);
    spellings.insert(spelling, id);
    if (spec.types[i] == TokenType::control || spec.types[i] == TokenType::unknown) {
      special.insert(spelling, id);
    } else if (spec.types[i] == TokenType::user_defined) {
      user_defined.insert(is_sentencepiece() ? spell_spaces(spelling) : spelling, id);
    }
  }
  end_of_generation = end_of_generation_ids(spec);
}

Result<Tokenizer> Tokenizer::make(TokenizerSpec spec) {
  BATON_TRY(check(spec));
  auto state = std::make_shared<State>();
  state->spec = std::move(spec);
  state->bytes = token_bytes(state->spec);
  state->index_tokens();
  if (state->is_sentencepiece()) {
    BATON_ASSIGN(state->encoder, PieceBpe::make(state->spec));
  } else {
    BATON_ASSIGN(state->encoder, ByteBpe::make(state->spec, state->bytes));
  }
  return Tokenizer(std::move(state));
}

const TokenizerSpec& Tokenizer::spec() const { return state_->spec; }

std::size_t Tokenizer::vocabulary_size() const { return state_->spec.tokens.size(); }

Result<std::vector<TokenId>> Tokenizer::encode(std::span<const Segment> segments,
                                               const EncodeOptions& options) const {
  // Places in a word are 32 bits wide, and a space may be spelled with three bytes.
  constexpr std::size_t hard_limit = std::size_t{1} << 30;
  const std::size_t limit = std::min(options.max_bytes, hard_limit);
  std::size_t total = 0;
  for (const Segment& segment : segments) {
    total += segment.text.size();
    if (segment.text.size() > limit || total > limit) {
      return Error(Reason::context_length_exceeded,
                   fmt::format("the text is longer than the {} bytes that are accepted", limit));
    }
  }
  Encoding encoding(*state_);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (!segments[i].parse_special) {
      encoding.plain(segments[i].text);
      continue;
    }
    // A template may write one spelling in several pieces.
    std::string joined(segments[i].text);
    while (i + 1 < segments.size() && segments[i + 1].parse_special) joined += segments[++i].text;
    parse_special_tokens(joined, state_->special, encoding);
  }
  std::vector<TokenId> ids = encoding.finish();
  if (options.add_special) add_special_tokens(state_->spec, ids);
  return ids;
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text,
                                               const EncodeOptions& options) const {
  const Segment segment{text, false};
  return encode({&segment, 1}, options);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  Detokenizer detokenizer(*this, options);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text + detokenizer.flush();
}

std::string_view Tokenizer::bytes(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= state_->bytes.size()) return {};
  return state_->bytes[id];
}

std::optional<TokenId> Tokenizer::find(std::string_view spelling) const {
  return state_->spellings.find(spelling);
}

bool Tokenizer::is_special(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= vocabulary_size()) return false;
  const TokenType type = state_->spec.types[id];
  return type == TokenType::control || type == TokenType::unknown;
}

std::span<const TokenId> Tokenizer::end_of_generation() const { return state_->end_of_generation; }

bool Tokenizer::is_end_of_generation(TokenId id) const {
  const auto& ids = state_->end_of_generation;
  return std::binary_search(ids.begin(), ids.end(), id);
}

std::size_t Tokenizer::longest_token_bytes() const { return state_->longest_token_bytes; }

}  // namespace baton::tokenizer

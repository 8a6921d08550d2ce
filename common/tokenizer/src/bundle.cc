// Canonical bytes of a TokenizerSpec. Layout, version 1 (n is an unsigned LEB128 number in its
// shortest form):
//   "BTOK" | n version | u8 algorithm | u8 pre-tokenizer | u8 flags | 6 × n (id + 1, 0 for none)
//   | n tokens, each u8 type, n length, bytes | scores, f32 little-endian, sentencepiece only
//   | n merges, each n left, n right | n length, chat template
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "baton/tokenizer/spec.h"

namespace baton::tokenizer {
namespace {

constexpr std::string_view magic = "BTOK";
constexpr std::uint64_t version = 1;
constexpr std::uint8_t flag_add_bos = 1;
constexpr std::uint8_t flag_add_eos = 2;
constexpr std::uint8_t flag_space_prefix = 4;
constexpr std::uint8_t all_flags = flag_add_bos | flag_add_eos | flag_space_prefix;

void put_u8(std::string& out, std::uint8_t value) { out.push_back(static_cast<char>(value)); }

void put_number(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    put_u8(out, static_cast<std::uint8_t>(value | 0x80));
    value >>= 7;
  }
  put_u8(out, static_cast<std::uint8_t>(value));
}

void put_text(std::string& out, std::string_view text) {
  put_number(out, text.size());
  out += text;
}

void put_score(std::string& out, float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score);
  for (unsigned shift = 0; shift < 32; shift += 8) {
    put_u8(out, static_cast<std::uint8_t>(bits >> shift));
  }
}

Error malformed(std::string_view what) {
  return {Reason::protocol_violation, fmt::format("tokenizer bundle: {}", what)};
}

/// Takes fields off the front. After the first failure every further answer is zero or empty, so
/// one look at failed() after a group of fields is enough.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  bool failed() const { return failed_; }
  std::size_t left() const { return rest_.size(); }

  std::string_view take(std::uint64_t count) {
    if (failed_ || count > rest_.size()) {
      failed_ = true;
      return {};
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::uint8_t u8() {
    const std::string_view byte = take(1);
    return byte.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(byte[0]);
  }

  /// A number up to `most`, in its shortest form.
  std::uint64_t number(std::uint64_t most) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      const std::uint8_t byte = u8();
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if ((byte & 0x80U) != 0) continue;
      const bool shortest = byte != 0 || shift == 0;
      if (failed_ || !shortest || value > most) break;
      return value;
    }
    failed_ = true;
    return 0;
  }

  std::string_view text(std::uint64_t most) { return take(number(most)); }

  float score() {
    const std::string_view bytes = take(4);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bits |= std::uint32_t{static_cast<std::uint8_t>(bytes[i])} << (8 * i);
    }
    return std::bit_cast<float>(bits);
  }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

Result<void> read_head(Reader& in, TokenizerSpec& spec) {
  if (in.take(magic.size()) != magic) return malformed("it does not begin with its mark");
  const std::uint64_t found = in.number(~std::uint32_t{0});
  if (in.failed()) return malformed("no version");
  if (found != version) {
    return Error(Reason::version_mismatch,
                 fmt::format("tokenizer bundle: version {} where {} is known", found, version));
  }
  const std::uint8_t algorithm = in.u8();
  const std::uint8_t pre_tokenizer = in.u8();
  const std::uint8_t flags = in.u8();
  if (algorithm > static_cast<std::uint8_t>(Algorithm::sentencepiece) ||
      pre_tokenizer > static_cast<std::uint8_t>(PreTokenizer::qwen2) || (flags & ~all_flags) != 0) {
    return malformed("unknown algorithm, pre-tokenizer or flag");
  }
  spec.algorithm = static_cast<Algorithm>(algorithm);
  spec.pre_tokenizer = static_cast<PreTokenizer>(pre_tokenizer);
  spec.add_bos = (flags & flag_add_bos) != 0;
  spec.add_eos = (flags & flag_add_eos) != 0;
  spec.add_space_prefix = (flags & flag_space_prefix) != 0;
  for (auto* id : {&spec.bos, &spec.eos, &spec.eot, &spec.eom, &spec.unknown, &spec.padding}) {
    const std::uint64_t stored = in.number(max_vocabulary);
    if (stored > 0) *id = static_cast<TokenId>(stored - 1);
  }
  if (in.failed()) return malformed("bad token ids");
  return ok();
}

Result<void> read_tokens(Reader& in, TokenizerSpec& spec) {
  const std::uint64_t count = in.number(max_vocabulary);
  // A token takes two bytes at least, a score four: a large count needs a large bundle.
  if (in.failed() || count > in.left() / 2) return malformed("bad number of tokens");
  spec.tokens.reserve(count);
  spec.types.reserve(count);
  for (std::uint64_t i = 0; i < count && !in.failed(); ++i) {
    spec.types.push_back(static_cast<TokenType>(in.u8()));
    spec.tokens.emplace_back(in.text(max_token_bytes));
  }
  if (spec.algorithm == Algorithm::sentencepiece) {
    if (in.failed() || count > in.left() / 4) return malformed("bad tokens");
    spec.scores.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) spec.scores.push_back(in.score());
  }
  if (in.failed()) return malformed("bad tokens");
  return ok();
}

Result<void> read_merges(Reader& in, TokenizerSpec& spec) {
  const std::uint64_t count = in.number(max_merges);
  if (in.failed() || count > in.left() / 2) return malformed("bad number of merges");
  spec.merges.reserve(count);
  for (std::uint64_t i = 0; i < count && !in.failed(); ++i) {
    const auto left = static_cast<TokenId>(in.number(max_vocabulary));
    const auto right = static_cast<TokenId>(in.number(max_vocabulary));
    spec.merges.push_back({left, right});
  }
  if (in.failed()) return malformed("bad merges");
  return ok();
}

}  // namespace

std::string serialise(const TokenizerSpec& spec) {
  std::string out(magic);
  put_number(out, version);
  put_u8(out, static_cast<std::uint8_t>(spec.algorithm));
  put_u8(out, static_cast<std::uint8_t>(spec.pre_tokenizer));
  put_u8(out, static_cast<std::uint8_t>((spec.add_bos ? flag_add_bos : 0) |
                                        (spec.add_eos ? flag_add_eos : 0) |
                                        (spec.add_space_prefix ? flag_space_prefix : 0)));
  for (const auto& id : {spec.bos, spec.eos, spec.eot, spec.eom, spec.unknown, spec.padding}) {
    put_number(out, id ? static_cast<std::uint64_t>(*id) + 1 : 0);
  }
  put_number(out, spec.tokens.size());
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    put_u8(out, static_cast<std::uint8_t>(spec.types[i]));
    put_text(out, spec.tokens[i]);
  }
  for (const float score : spec.scores) put_score(out, score);
  put_number(out, spec.merges.size());
  for (const Merge& merge : spec.merges) {
    put_number(out, static_cast<std::uint64_t>(merge.left));
    put_number(out, static_cast<std::uint64_t>(merge.right));
  }
  put_text(out, spec.chat_template);
  return out;
}

Result<TokenizerSpec> parse_spec(std::string_view bytes) {
  Reader in(bytes);
  TokenizerSpec spec;
  BATON_TRY(read_head(in, spec));
  BATON_TRY(read_tokens(in, spec));
  BATON_TRY(read_merges(in, spec));
  spec.chat_template = in.text(max_template_bytes);
  if (in.failed()) return malformed("bad chat template");
  if (in.left() != 0) return malformed("bytes after its end");
  BATON_TRY(check(spec));
  return spec;
}

}  // namespace baton::tokenizer

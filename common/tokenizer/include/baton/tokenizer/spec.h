// What defines a tokenizer, as plain data: read from a model file's metadata or from a bundle that
// a worker sent, and enough to make a Tokenizer from. No model weights are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/result.h"

namespace baton::modelfile {
class Metadata;
}

namespace baton::tokenizer {

enum class Algorithm : std::uint8_t {
  byte_level_bpe = 0,  ///< tokenizer.ggml.model = "gpt2": ranked merges over bytes
  sentencepiece = 1,   ///< tokenizer.ggml.model = "llama": scored merges over code points
};

/// How byte-level text is cut into words before merging (tokenizer.ggml.pre). No Unicode
/// normalisation is done for any of them.
enum class PreTokenizer : std::uint8_t {
  none = 0,    ///< sentencepiece: the text is one word
  gpt2 = 1,    ///< "gpt-2"
  smollm = 2,  ///< "smollm": every digit alone, then as gpt2
  llama3 = 3,  ///< "llama-bpe": up to three digits, contractions in any case
  qwen2 = 4,   ///< "qwen2": as llama3 with every digit alone
};

/// The numbers are those of tokenizer.ggml.token_type.
enum class TokenType : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,       ///< written by templates and the model only; never found in a user's text
  user_defined = 4,  ///< found whole in any text, before merging
  unused = 5,        ///< never produced
  byte = 6,          ///< "<0xNN>"
};

/// Two tokens that merge into the token spelled by both. A merge's rank is its place in the list.
struct Merge {
  TokenId left = 0;
  TokenId right = 0;

  friend bool operator==(const Merge&, const Merge&) = default;
};

struct TokenizerSpec {
  Algorithm algorithm = Algorithm::byte_level_bpe;
  PreTokenizer pre_tokenizer = PreTokenizer::gpt2;
  std::vector<std::string> tokens;  ///< spelled as in the model file; the index is the id
  std::vector<TokenType> types;     ///< one per token
  std::vector<float> scores;        ///< sentencepiece: one per token, finite; else empty
  std::vector<Merge> merges;        ///< byte_level_bpe only
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> eot;  ///< end of turn
  std::optional<TokenId> eom;  ///< end of message
  std::optional<TokenId> unknown;
  std::optional<TokenId> padding;
  bool add_bos = false;           ///< begin an encoded text with bos (LDR-12)
  bool add_eos = false;           ///< end an encoded text with eos
  bool add_space_prefix = false;  ///< sentencepiece only: a space before the first word
  std::string chat_template;      ///< Jinja source; empty when the file has none

  friend bool operator==(const TokenizerSpec&, const TokenizerSpec&) = default;
};

// Limits of what is accepted (R7); the largest vocabularies in use have a quarter million tokens.
inline constexpr std::size_t max_vocabulary = std::size_t{1} << 20;
inline constexpr std::size_t max_merges = std::size_t{1} << 21;
inline constexpr std::size_t max_token_bytes = 4096;
/// A control or user-defined token's spelling: looked for at every byte of a text, so this bounds
/// the time per byte.
inline constexpr std::size_t max_marker_bytes = 256;
inline constexpr std::size_t max_template_bytes = std::size_t{1} << 20;

/// The tokenizer of a model file. Flags that the file lacks get the algorithm's defaults. Spellings
/// known as chat markers (<|im_end|>, <end_of_turn>, …) and the bos/eos/eot/eom tokens count as
/// control even where a file calls them normal or user-defined, so that a user's text cannot spell
/// them (SEC-14). Fails with bad_model_file, naming the field.
Result<TokenizerSpec> spec_from(const modelfile::Metadata& metadata);

/// Sizes agree, ids are inside the vocabulary, limits hold. Fails with bad_model_file.
Result<void> check(const TokenizerSpec& spec);

/// Ids that end a generation: eos, eot, eom and control tokens with a well-known spelling
/// (LDR-15). Ascending.
std::vector<TokenId> end_of_generation_ids(const TokenizerSpec& spec);

/// Canonical bytes: the same fields give the same bytes and the reverse, on any machine. They are
/// the bundle that a router loads and the tokenizer's part of the fingerprint. `spec` passed
/// check().
std::string serialise(const TokenizerSpec& spec);

/// Reads serialise()'s bytes back. Every length is checked before allocation (R7). Fails with
/// version_mismatch for a newer format, protocol_violation for malformed bytes, and with
/// bad_model_file where check() does.
Result<TokenizerSpec> parse_spec(std::string_view bytes);

}  // namespace baton::tokenizer

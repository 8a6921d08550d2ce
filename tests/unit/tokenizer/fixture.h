// The committed vocabularies and reference ids of tests/golden/tokenizer (see make_fixtures.py
// there), and the default model's own tokenizer.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "baton/tokenizer/tokenizer.h"

#include "support/gguf/gguf_writer.h"

namespace baton::test {

/// What the reference made of each text.
struct Golden {
  std::vector<std::string> texts;
  std::vector<std::vector<TokenId>> plain;   ///< as a user's text
  std::vector<std::vector<TokenId>> parsed;  ///< as a template's
};

/// `name` as "smollm2".
Golden load_golden(std::string_view name);

/// Ids and the reference's text of them, without special tokens.
struct Decoded {
  std::vector<TokenId> ids;
  std::string text;
};
std::vector<Decoded> load_decoded(std::string_view name);

/// GGUF fields of a fixture that has a vocabulary; `pre` replaces its pre-tokenizer when given.
GgufWriter fixture_fields(std::string_view name, std::string_view pre = {});

/// The spec that a file of these fields gives; the test fails when it gives none.
tokenizer::TokenizerSpec spec_of(const GgufWriter& fields);
tokenizer::Tokenizer tokenizer_of(const GgufWriter& fields);
tokenizer::Tokenizer fixture_tokenizer(std::string_view name, std::string_view pre = {});

/// $BATON_TEST_MODEL, or the default model in the cache folder; nothing when there is neither.
std::optional<std::filesystem::path> model_path();
inline constexpr std::string_view no_model =
    "no model: set BATON_TEST_MODEL or let tests/run fetch the default one";
/// $BATON_TEST_GEMMA: Gemma's terms forbid fetching it for everybody.
std::optional<std::filesystem::path> gemma_path();
tokenizer::Tokenizer model_tokenizer(const std::filesystem::path& path);

/// Ids of one text without bos and eos.
std::vector<TokenId> ids_of(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                            bool parse_special = false);

/// `text` for a message: bytes outside printable ASCII as \xNN.
std::string escaped(std::string_view text);

}  // namespace baton::test

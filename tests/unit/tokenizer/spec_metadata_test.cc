// What a model file may say about its tokenizer, and the one line that a bad one is refused with.
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "baton/modelfile/model_file.h"

#include "fixture.h"

namespace baton::test {
namespace {

using testing::HasSubstr;
using tokenizer::PreTokenizer;
using tokenizer::TokenizerSpec;
using tokenizer::TokenType;

/// The message that a file of these fields is refused with; empty when it is accepted.
std::string refusal(const GgufWriter& fields) {
  const auto file = modelfile::ModelFile::parse(fields.bytes());
  if (!file) return file.error().message();
  const auto spec = tokenizer::spec_from(file->metadata());
  if (spec.has_error()) {
    EXPECT_EQ(spec.error().reason(), Reason::bad_model_file);
    return spec.error().message();
  }
  const auto made = tokenizer::Tokenizer::make(*spec);
  if (made) return {};
  EXPECT_EQ(made.error().reason(), Reason::bad_model_file);
  return made.error().message();
}

/// Fields of a small byte-level tokenizer, each of which a test may replace.
struct ByteLevelFields {
  std::string model = "gpt2";
  std::string pre = "gpt-2";
  std::vector<std::string> tokens = {"a", "b", "ab", "<|im_end|>"};
  std::vector<std::int32_t> types = {1, 1, 1, 3};
  std::vector<std::string> merges = {"a b"};

  GgufWriter writer() const {
    GgufWriter fields;
    fields.add_string("tokenizer.ggml.model", model);
    if (!pre.empty()) fields.add_string("tokenizer.ggml.pre", pre);
    fields.add_strings("tokenizer.ggml.tokens", tokens);
    if (!types.empty()) fields.add_i32s("tokenizer.ggml.token_type", types);
    fields.add_strings("tokenizer.ggml.merges", merges);
    return fields;
  }
};

struct PieceFields {
  std::vector<std::string> tokens = {"<unk>", "a", "b", "ab"};
  std::vector<std::int32_t> types = {2, 1, 1, 1};
  std::vector<float> scores = {0, -1, -2, -3};

  GgufWriter writer() const {
    GgufWriter fields;
    fields.add_string("tokenizer.ggml.model", "llama");
    fields.add_strings("tokenizer.ggml.tokens", tokens);
    fields.add_i32s("tokenizer.ggml.token_type", types);
    fields.add_f32s("tokenizer.ggml.scores", scores);
    fields.add_u32("tokenizer.ggml.unknown_token_id", 0);
    return fields;
  }
};

TEST(SpecMetadata, SmallFilesAreAccepted) {
  EXPECT_EQ(refusal(ByteLevelFields{}.writer()), "");
  EXPECT_EQ(refusal(PieceFields{}.writer()), "");
}

TEST(SpecMetadata, AnUnknownPreTokenizerIsRefusedByName) {
  ByteLevelFields fields;
  fields.pre = "chatglm\n-bpe";
  EXPECT_THAT(refusal(fields.writer()), HasSubstr("tokenizer.ggml.pre"));
  EXPECT_THAT(refusal(fields.writer()), HasSubstr("chatglm\\"));
  EXPECT_EQ(refusal(fields.writer()).find('\n'), std::string::npos);
}

TEST(SpecMetadata, AMissingPreTokenizerIsRefused) {
  ByteLevelFields fields;
  fields.pre.clear();
  EXPECT_THAT(refusal(fields.writer()), HasSubstr("tokenizer.ggml.pre"));
}

TEST(SpecMetadata, KnownPreTokenizersAreToldApart) {
  for (const auto& [name, kind] :
       std::vector<std::pair<std::string, PreTokenizer>>{{"smollm", PreTokenizer::smollm},
                                                         {"llama-bpe", PreTokenizer::llama3},
                                                         {"gpt-2", PreTokenizer::gpt2},
                                                         {"qwen2", PreTokenizer::qwen2}}) {
    ByteLevelFields fields;
    fields.pre = name;
    EXPECT_EQ(spec_of(fields.writer()).pre_tokenizer, kind) << name;
  }
}

TEST(SpecMetadata, AnUnknownModelIsRefusedByName) {
  ByteLevelFields fields;
  fields.model = "rwkv";
  EXPECT_THAT(refusal(fields.writer()), HasSubstr("'rwkv', which is not supported"));
}

TEST(SpecMetadata, NothingAtAllIsRefused) {
  EXPECT_THAT(refusal(GgufWriter()), HasSubstr("tokenizer.ggml.model"));
}

TEST(SpecMetadata, ListsOfOtherLengthsAreRefused) {
  ByteLevelFields fields;
  fields.types = {1, 1, 1};
  EXPECT_THAT(refusal(fields.writer()), HasSubstr("3 types for 4 tokens"));
  PieceFields pieces;
  pieces.scores.pop_back();
  EXPECT_THAT(refusal(pieces.writer()), HasSubstr("3 scores for 4 tokens"));
}

TEST(SpecMetadata, WrongValuesAreRefusedWithTheirPlace) {
  ByteLevelFields types;
  types.types[2] = 7;
  EXPECT_THAT(refusal(types.writer()), HasSubstr("gives token 2 the unknown type 7"));
  ByteLevelFields byte;
  byte.types[1] = 6;
  EXPECT_THAT(refusal(byte.writer()), HasSubstr("token 1 has the type byte"));
  for (const char* const merge : {"a c", "ab", "", " b", "a b "}) {
    ByteLevelFields merges;
    merges.merges.emplace_back(merge);
    EXPECT_THAT(refusal(merges.writer()), HasSubstr("has a merge 1 that is not two tokens"))
        << merge;
  }
  ByteLevelFields spelled;
  spelled.merges.emplace_back("b a");
  EXPECT_THAT(refusal(spelled.writer()), HasSubstr("merge 1 spells no token"));
  PieceFields scores;
  scores.scores[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal(scores.writer()), HasSubstr("score 3 is not finite"));
}

TEST(SpecMetadata, IdsOutsideTheVocabularyAreRefused) {
  for (const char* const key :
       {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.eom_token_id", "tokenizer.ggml.unknown_token_id",
        "tokenizer.ggml.padding_token_id"}) {
    EXPECT_EQ(refusal(ByteLevelFields{}.writer().add_u32(key, 3)), "") << key;
    const std::string message = refusal(ByteLevelFields{}.writer().add_u32(key, 4));
    EXPECT_THAT(message, HasSubstr(key));
    EXPECT_THAT(message, HasSubstr("is 4, outside the vocabulary"));
  }
}

TEST(SpecMetadata, ABosToAddMustExist) {
  EXPECT_THAT(refusal(ByteLevelFields{}.writer().add_bool("tokenizer.ggml.add_bos_token", true)),
              HasSubstr("no bos token"));
  EXPECT_THAT(refusal(ByteLevelFields{}.writer().add_bool("tokenizer.ggml.add_eos_token", true)),
              HasSubstr("no eos token"));
}

TEST(SpecMetadata, TextChangesThatWeDoNotMakeAreRefused) {
  EXPECT_THAT(
      refusal(PieceFields{}.writer().add_bool("tokenizer.ggml.remove_extra_whitespaces", true)),
      HasSubstr("remove_extra_whitespaces"));
  EXPECT_THAT(refusal(PieceFields{}.writer().add_i32s("tokenizer.ggml.precompiled_charsmap", {1})),
              HasSubstr("precompiled_charsmap"));
}

TEST(SpecMetadata, TooLongSpellingsAreRefused) {
  ByteLevelFields normal;
  normal.tokens[2] = std::string(tokenizer::max_token_bytes + 1, 'a');
  EXPECT_THAT(refusal(normal.writer()), HasSubstr("has a token 2 of 4097 bytes"));
  ByteLevelFields marker;
  marker.tokens[3] = std::string(tokenizer::max_marker_bytes + 1, 'a');
  EXPECT_THAT(refusal(marker.writer()), HasSubstr("special token 3 has 257 bytes"));
}

TEST(SpecMetadata, TextThatCouldHaveNoTokenIsRefused) {
  PieceFields fields;
  fields.types[0] = 1;
  GgufWriter writer;
  writer.add_string("tokenizer.ggml.model", "llama");
  writer.add_strings("tokenizer.ggml.tokens", fields.tokens);
  writer.add_i32s("tokenizer.ggml.token_type", fields.types);
  writer.add_f32s("tokenizer.ggml.scores", fields.scores);
  EXPECT_THAT(refusal(writer), HasSubstr("neither 256 byte tokens nor an unknown token"));
}

TEST(SpecMetadata, ChatMarkersCountAsControlWhateverTheFileSaysSec14) {
  ByteLevelFields fields;
  fields.tokens = {"a", "b", "ab", "<|im_end|>", "<|im_start|>", "<end_of_turn>", "<b>"};
  fields.types = {1, 1, 1, 4, 1, 4, 4};
  const TokenizerSpec spec = spec_of(fields.writer());
  EXPECT_EQ(spec.types[3], TokenType::control);
  EXPECT_EQ(spec.types[4], TokenType::control);
  EXPECT_EQ(spec.types[5], TokenType::control);
  EXPECT_EQ(spec.types[6], TokenType::user_defined);
  EXPECT_EQ(tokenizer::end_of_generation_ids(spec), (std::vector<TokenId>{3, 5}));
}

TEST(SpecMetadata, TheBosOfAFileWithoutTypesCannotBeSpelledByAUser) {
  ByteLevelFields fields;
  fields.types.clear();
  const auto made = tokenizer_of(fields.writer().add_u32("tokenizer.ggml.bos_token_id", 2));
  EXPECT_EQ(ids_of(made, "ab"), (std::vector<TokenId>{0, 1}));
  EXPECT_EQ(ids_of(made, "ab", true), std::vector<TokenId>{2});
}

}  // namespace
}  // namespace baton::test

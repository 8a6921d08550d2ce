// Tiny models with random weights of any stored type, as bytes of a model file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "baton/base/ids.h"
#include "baton/modelfile/model_file.h"

namespace baton::test {

/// Widths that feed a quantised matrix (width, heads * head_dim, ffn_width) are multiples of 32.
struct RandomModel {
  std::string family = "llama";
  modelfile::GgmlType type = modelfile::GgmlType::f32;
  int layers = 2;
  int width = 64;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 16;
  int ffn_width = 96;
  int vocabulary = 101;
  int window = 0;  ///< llama: of all layers; gemma3: of every layer but each second one
  bool bias = false;
  bool tied_output = false;
  /// Adds a tokenizer of single bytes, an end id and a chat template; needs a vocabulary of at
  /// least text_vocabulary.
  bool text = false;
  std::uint64_t seed = 1;
};

inline constexpr int text_vocabulary = 259;

/// Matrices N(0, 2 / sqrt(inputs)), embeddings N(0, 1), norms U(0.5, 1.5), biases N(0, 0.5), then
/// stored in `type` (norms and biases stay F32).
modelfile::ModelFile make_random_model(const RandomModel& spec);
void write_random_model(const RandomModel& spec, const std::filesystem::path& path);

std::vector<TokenId> random_tokens(int count, int vocabulary, std::uint64_t seed);

}  // namespace baton::test

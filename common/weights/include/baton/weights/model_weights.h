// The weights of a model: read from a model file by the names of its family, checked against the
// expected shapes, packed for a kernel set.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "baton/base/ids.h"
#include "baton/base/result.h"
#include "baton/kernels/kernels.h"
#include "baton/modelfile/model_file.h"
#include "baton/weights/names.h"
#include "baton/weights/packed_memory.h"

namespace baton::weights {

/// Everything that decides which tensors a model has and their shapes.
struct Shape {
  std::string family;
  int layers = 0;
  int width = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn_width = 0;
  int vocabulary = 0;
  int rope_factors = 0;  ///< elements of the tensor of rope factors, 0 when there is none
  bool qk_norm = false;
  bool post_norms = false;
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool ffn_bias = false;
  bool tied_output = false;
};

/// One linear operation. Tensors that read the same input stand one after the other in its outputs;
/// those of one element type are packed together as one piece, which saves passes over the input.
/// Each output is a sum of its own, so the bits do not depend on the pieces.
struct Linear {
  std::vector<kernels::PackedMatrix> pieces;
  std::vector<float> bias;  ///< empty, or one value per output

  int inputs() const { return pieces.empty() ? 0 : pieces.front().inputs; }
  int outputs() const;
  kernels::LinearWeights view() const { return {pieces, bias}; }
};

/// Vectors that a family does not have are empty.
struct LayerWeights {
  std::vector<float> attention_norm;
  Linear qkv;  ///< outputs: q heads, k heads, v heads
  std::vector<float> q_norm;
  std::vector<float> k_norm;
  Linear attention_output;
  std::vector<float> post_attention_norm;
  std::vector<float> ffn_norm;
  Linear gate_up;  ///< outputs: gate, up
  Linear down;
  std::vector<float> post_ffn_norm;
};

struct ModelWeights {
  kernels::PackedMatrix token_embedding;
  std::vector<float> output_norm;
  Linear output;  ///< the token embedding when the output is tied
  std::vector<LayerWeights> layers;
  PackedMemory memory;  ///< what the packed matrices point into
};

/// Where packed weights are kept for the next start, and for the other processes of the machine.
struct PackedCache {
  std::filesystem::path directory;  ///< see cache_directory()
  Digest256 content;                ///< of the model file
};

/// Called with the share of the packed bytes that is done, ascending, 1 at last.
using Progress = std::function<void(double fraction)>;

/// Checks all tensors, then packs them, or maps what was packed before for the same content and the
/// same kernels: packed bytes that do not fit the kernels' layout of today or have changed are made
/// anew, and a cache that cannot be used costs no more than its use. Models below 16 MiB are not
/// kept. Beside the packed data it holds at most one layer's tensors
/// of one linear operation; the file's pages are given back as they are read (R14).
/// Errors: bad_model_file that names the tensor with the expected and the found shape or type, a
/// missing tensor, and a tensor of the file that the family would leave unused; io_error when the
/// file was changed since it was opened: nothing is kept then.
Result<ModelWeights> load(const modelfile::ModelFile& file, const Shape& shape,
                          const kernels::Kernels& kernels, const Progress& progress,
                          const std::optional<PackedCache>& cache = std::nullopt);

/// A small tensor as float32 (norms, biases, rope factors): stored as f32, f16 or bf16.
/// Errors: bad_model_file as above.
Result<std::vector<float>> read_vector(const modelfile::ModelFile& file, const std::string& name,
                                       int elements);

/// The kernels' name of a stored element type.
tensor::DType dtype_of(modelfile::GgmlType type);

}  // namespace baton::weights

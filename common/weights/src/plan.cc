#include "plan.h"

#include <set>
#include <string_view>

#include <fmt/format.h>

namespace baton::weights {
namespace {

using modelfile::GgmlType;
using modelfile::TensorInfo;

class Planner {
 public:
  explicit Planner(const Shape& shape) : shape_(shape) {}

  Result<std::vector<TensorSpec>> run() {
    matrix(Part::token_embedding, 0, shape_.width, shape_.vocabulary);
    vector(Part::output_norm, 0, shape_.width);
    if (!shape_.tied_output) matrix(Part::output, 0, shape_.width, shape_.vocabulary);
    if (shape_.rope_factors > 0) vector(Part::rope_factors, 0, shape_.rope_factors);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      attention(layer);
      feed_forward(layer);
    }
    if (nameless_) return Error(Reason::bad_model_file, *nameless_);
    return std::move(specs_);
  }

 private:
  void attention(int layer) {
    const int q_width = shape_.heads * shape_.head_dim;
    const int kv_width = shape_.kv_heads * shape_.head_dim;
    vector(Part::attention_norm, layer, shape_.width);
    matrix(Part::q, layer, shape_.width, q_width);
    matrix(Part::k, layer, shape_.width, kv_width);
    matrix(Part::v, layer, shape_.width, kv_width);
    if (shape_.qkv_bias) {
      vector(Part::q_bias, layer, q_width);
      vector(Part::k_bias, layer, kv_width);
      vector(Part::v_bias, layer, kv_width);
    }
    if (shape_.qk_norm) {
      vector(Part::q_norm, layer, shape_.head_dim);
      vector(Part::k_norm, layer, shape_.head_dim);
    }
    matrix(Part::attention_output, layer, q_width, shape_.width);
    if (shape_.attention_output_bias) vector(Part::attention_output_bias, layer, shape_.width);
    if (shape_.post_norms) vector(Part::post_attention_norm, layer, shape_.width);
  }

  void feed_forward(int layer) {
    vector(Part::ffn_norm, layer, shape_.width);
    matrix(Part::gate, layer, shape_.width, shape_.ffn_width);
    matrix(Part::up, layer, shape_.width, shape_.ffn_width);
    matrix(Part::down, layer, shape_.ffn_width, shape_.width);
    if (shape_.ffn_bias) {
      vector(Part::gate_bias, layer, shape_.ffn_width);
      vector(Part::up_bias, layer, shape_.ffn_width);
      vector(Part::down_bias, layer, shape_.width);
    }
    if (shape_.post_norms) vector(Part::post_ffn_norm, layer, shape_.width);
  }

  void matrix(Part part, int layer, int inputs, int outputs) {
    auto name = tensor_name(shape_.family, part, layer);
    if (!name) {
      nameless_ = fmt::format("family '{}' has no tensor for part {} of layer {}", shape_.family,
                              static_cast<int>(part), layer);
      return;
    }
    specs_.push_back({std::move(*name), inputs, outputs});
  }
  void vector(Part part, int layer, int elements) { matrix(part, layer, elements, 0); }

  const Shape& shape_;
  std::vector<TensorSpec> specs_;
  std::optional<std::string> nameless_;
};

std::string shape_text(const TensorInfo& tensor) {
  std::string text = "[";
  for (std::uint32_t d = 0; d < tensor.n_dims; ++d) {
    text += fmt::format("{}{}", d == 0 ? "" : ", ", tensor.dims[d]);
  }
  return text + "]";
}

Error bad_tensor(std::string_view name, std::string_view problem) {
  return {Reason::bad_model_file, fmt::format("tensor '{}': {}", name, problem)};
}

}  // namespace

Result<std::vector<TensorSpec>> plan(const Shape& shape) { return Planner(shape).run(); }

Result<void> check_tensor(const modelfile::ModelFile& file, const TensorSpec& spec) {
  BATON_ASSIGN(const TensorInfo* tensor, file.tensor(spec.name));
  const bool is_vector = spec.outputs == 0;
  const std::uint64_t outputs = is_vector ? 1 : static_cast<std::uint64_t>(spec.outputs);
  if (tensor->dims[0] != static_cast<std::uint64_t>(spec.inputs) || tensor->dims[1] != outputs ||
      tensor->dims[2] != 1 || tensor->dims[3] != 1) {
    const std::string expected = is_vector ? fmt::format("[{}]", spec.inputs)
                                           : fmt::format("[{}, {}]", spec.inputs, spec.outputs);
    return bad_tensor(spec.name,
                      fmt::format("expected shape {}, found {}", expected, shape_text(*tensor)));
  }
  const bool plain = tensor->type == GgmlType::f32 || tensor->type == GgmlType::f16 ||
                     tensor->type == GgmlType::bf16;
  if (is_vector && !plain) {
    return bad_tensor(spec.name, fmt::format("expected type F32, F16 or BF16, found {}",
                                             modelfile::info(tensor->type).name));
  }
  return ok();
}

Result<void> check(const modelfile::ModelFile& file, const std::vector<TensorSpec>& specs) {
  std::set<std::string_view> used;
  for (const TensorSpec& spec : specs) {
    BATON_TRY(check_tensor(file, spec));
    used.insert(spec.name);
  }
  // A tensor that we would not use means a model that we do not understand: its text would be
  // wrong without a sign of it.
  for (const TensorInfo& tensor : file.tensors()) {
    if (!used.contains(tensor.name)) {
      return bad_tensor(modelfile::printable(tensor.name),
                        "is not expected in a model with this architecture and these fields");
    }
  }
  return ok();
}

}  // namespace baton::weights

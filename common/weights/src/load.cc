// Reads and packs the planned tensors, layer by layer.
#include <cstring>
#include <span>
#include <utility>

#include "baton/base/check.h"
#include "baton/weights/model_weights.h"

#include "plan.h"

namespace baton::weights {
namespace {

using modelfile::GgmlType;
using modelfile::ModelFile;
using modelfile::TensorInfo;

/// After check(): names and shapes are right.
class Packer {
 public:
  Packer(const ModelFile& file, const Shape& shape, const kernels::Kernels& kernels,
         const Progress& progress)
      : file_(file), shape_(shape), kernels_(kernels), progress_(progress) {
    for (const TensorInfo& tensor : file.tensors()) total_bytes_ += tensor.size_bytes;
  }

  ModelWeights run() {
    weights_.token_embedding = linear({Part::token_embedding}, 0).pieces.front();
    weights_.output_norm = vector(Part::output_norm, 0);
    if (shape_.tied_output) {
      weights_.output.pieces = {weights_.token_embedding};
    } else {
      weights_.output = linear({Part::output}, 0);
    }
    for (int layer = 0; layer < shape_.layers; ++layer) {
      weights_.layers.push_back(layer_weights(layer));
    }
    if (progress_) progress_(1);
    return std::move(weights_);
  }

 private:
  LayerWeights layer_weights(int layer) {
    LayerWeights weights;
    weights.attention_norm = vector(Part::attention_norm, layer);
    weights.qkv = linear({Part::q, Part::k, Part::v}, layer);
    if (shape_.qkv_bias) {
      weights.qkv.bias = vectors({Part::q_bias, Part::k_bias, Part::v_bias}, layer);
    }
    if (shape_.qk_norm) {
      weights.q_norm = vector(Part::q_norm, layer);
      weights.k_norm = vector(Part::k_norm, layer);
    }
    weights.attention_output = linear({Part::attention_output}, layer);
    if (shape_.attention_output_bias) {
      weights.attention_output.bias = vector(Part::attention_output_bias, layer);
    }
    weights.ffn_norm = vector(Part::ffn_norm, layer);
    weights.gate_up = linear({Part::gate, Part::up}, layer);
    weights.down = linear({Part::down}, layer);
    if (shape_.ffn_bias) {
      weights.gate_up.bias = vectors({Part::gate_bias, Part::up_bias}, layer);
      weights.down.bias = vector(Part::down_bias, layer);
    }
    if (shape_.post_norms) {
      weights.post_attention_norm = vector(Part::post_attention_norm, layer);
      weights.post_ffn_norm = vector(Part::post_ffn_norm, layer);
    }
    return weights;
  }

  const TensorInfo& tensor(Part part, int layer) const {
    const TensorInfo* found = file_.find_tensor(*tensor_name(shape_.family, part, layer));
    BATON_CHECK(found != nullptr);
    return *found;
  }

  std::vector<float> vector(Part part, int layer) {
    const TensorInfo& info = tensor(part, layer);
    std::vector<float> values(info.dims[0]);
    kernels::dequantise(dtype_of(info.type), file_.tensor_bytes(info).data(), values.size(),
                        values.data());
    return values;
  }

  std::vector<float> vectors(std::initializer_list<Part> parts, int layer) {
    std::vector<float> all;
    for (const Part part : parts) {
      const std::vector<float> one = vector(part, layer);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  Linear linear(std::initializer_list<Part> parts, int layer) {
    Linear result;
    std::vector<const TensorInfo*> run;
    for (const Part part : parts) {
      const TensorInfo& info = tensor(part, layer);
      if (!run.empty() && run.front()->type != info.type) {
        result.pieces.push_back(pack(run));
        run.clear();
      }
      run.push_back(&info);
    }
    result.pieces.push_back(pack(run));
    return result;
  }

  /// Packs tensors of one type and input width as one matrix.
  kernels::PackedMatrix pack(std::span<const TensorInfo* const> run) {
    const TensorInfo& first = *run.front();
    kernels::WeightView view;
    view.dtype = dtype_of(first.type);
    view.inputs = static_cast<int>(first.dims[0]);
    std::vector<std::byte> joined;
    for (const TensorInfo* info : run) {
      view.outputs += static_cast<int>(info->dims[1]);
      if (run.size() == 1) continue;
      const auto bytes = file_.tensor_bytes(*info);
      joined.insert(joined.end(), bytes.begin(), bytes.end());
      file_.drop_pages(*info);
    }
    view.data = run.size() == 1 ? file_.tensor_bytes(first).data() : joined.data();
    tensor::Buffer memory(kernels_.packed_bytes(view));
    kernels_.pack(view, memory.data());
    for (const TensorInfo* info : run) {
      file_.drop_pages(*info);
      done_bytes_ += info->size_bytes;
    }
    if (progress_) {
      progress_(static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_));
    }
    weights_.memory.push_back(std::move(memory));
    return {view.dtype, view.outputs, view.inputs, weights_.memory.back().data()};
  }

  const ModelFile& file_;
  const Shape& shape_;
  const kernels::Kernels& kernels_;
  const Progress& progress_;
  ModelWeights weights_;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t done_bytes_ = 0;
};

}  // namespace

int Linear::outputs() const {
  int sum = 0;
  for (const kernels::PackedMatrix& piece : pieces) sum += piece.outputs;
  return sum;
}

std::size_t ModelWeights::bytes() const {
  std::size_t sum = 0;
  for (const tensor::Buffer& buffer : memory) sum += buffer.size();
  return sum;
}

Result<ModelWeights> load(const ModelFile& file, const Shape& shape,
                          const kernels::Kernels& kernels, const Progress& progress) {
  BATON_ASSIGN(const std::vector<TensorSpec> specs, plan(shape));
  BATON_TRY(check(file, specs));
  return Packer(file, shape, kernels, progress).run();
}

Result<std::vector<float>> read_vector(const ModelFile& file, const std::string& name,
                                       int elements) {
  BATON_TRY(check_tensor(file, {name, elements, 0}));
  const TensorInfo& info = *file.find_tensor(name);
  std::vector<float> values(static_cast<std::size_t>(elements));
  kernels::dequantise(dtype_of(info.type), file.tensor_bytes(info).data(), values.size(),
                      values.data());
  return values;
}

tensor::DType dtype_of(GgmlType type) {
  switch (type) {
    case GgmlType::f32:
      return tensor::DType::f32;
    case GgmlType::f16:
      return tensor::DType::f16;
    case GgmlType::bf16:
      return tensor::DType::bf16;
    case GgmlType::q4_0:
      return tensor::DType::q4_0;
    case GgmlType::q4_1:
      return tensor::DType::q4_1;
    case GgmlType::q5_0:
      return tensor::DType::q5_0;
    case GgmlType::q5_1:
      return tensor::DType::q5_1;
    case GgmlType::q8_0:
      return tensor::DType::q8_0;
    case GgmlType::q4_k:
      return tensor::DType::q4_k;
    case GgmlType::q5_k:
      return tensor::DType::q5_k;
    case GgmlType::q6_k:
      return tensor::DType::q6_k;
  }
  BATON_CHECK(false);
  return tensor::DType::f32;
}

}  // namespace baton::weights

// Reads and packs the planned tensors, layer by layer.
#include <array>
#include <chrono>
#include <span>
#include <utility>

#include "baton/base/check.h"
#include "baton/weights/model_weights.h"

#include "packed_file.h"
#include "plan.h"
#include "sha256.h"

namespace baton::weights {
namespace {

using modelfile::GgmlType;
using modelfile::ModelFile;
using modelfile::TensorInfo;

/// A panel starts at a cache line.
constexpr std::size_t piece_alignment = 64;
constexpr std::size_t smallest_kept = std::size_t{16} << 20;
constexpr Duration lock_patience = std::chrono::minutes(2);

/// What becomes of the packed bytes of a piece on the way through the model's tensors.
enum class Pass : std::uint8_t {
  measure,  ///< only their size counts
  pack,     ///< they are written
  use,      ///< they are there already
};

/// Walks through the tensors in one order, after check(): names and shapes are right.
class Packer {
 public:
  Packer(const ModelFile& file, const Shape& shape, const kernels::Kernels& kernels,
         const Progress& progress)
      : file_(file), shape_(shape), kernels_(kernels), progress_(progress) {
    for (const TensorInfo& tensor : file.tensors()) total_bytes_ += tensor.size_bytes;
  }

  std::size_t packed_bytes() {
    run(Pass::measure, nullptr);
    return used_;
  }

  /// `memory` has packed_bytes() bytes.
  ModelWeights run(Pass pass, std::byte* memory) {
    pass_ = pass;
    memory_ = memory;
    used_ = 0;
    weights_ = {};
    all_parts();
    if (progress_ && pass != Pass::measure) progress_(1);
    return std::move(weights_);
  }

 private:
  void all_parts() {
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
  }

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

  /// Tensors of one type and input width as one matrix.
  kernels::PackedMatrix pack(std::span<const TensorInfo* const> run) {
    const TensorInfo& first = *run.front();
    kernels::WeightView view;
    view.dtype = dtype_of(first.type);
    view.inputs = static_cast<int>(first.dims[0]);
    for (const TensorInfo* info : run) view.outputs += static_cast<int>(info->dims[1]);
    std::byte* at = pass_ == Pass::measure ? nullptr : memory_ + used_;
    used_ +=
        (kernels_.packed_bytes(view) + piece_alignment - 1) / piece_alignment * piece_alignment;
    if (pass_ == Pass::pack) write(run, view, at);
    return {view.dtype, view.outputs, view.inputs, at};
  }

  void write(std::span<const TensorInfo* const> run, kernels::WeightView view, std::byte* at) {
    std::vector<std::byte> joined;
    for (const TensorInfo* info : run) {
      if (run.size() == 1) continue;
      const auto bytes = file_.tensor_bytes(*info);
      joined.insert(joined.end(), bytes.begin(), bytes.end());
      file_.drop_pages(*info);
    }
    view.data = run.size() == 1 ? file_.tensor_bytes(*run.front()).data() : joined.data();
    kernels_.pack(view, at);
    for (const TensorInfo* info : run) {
      file_.drop_pages(*info);
      done_bytes_ += info->size_bytes;
    }
    if (progress_) {
      progress_(static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_));
    }
  }

  const ModelFile& file_;
  const Shape& shape_;
  const kernels::Kernels& kernels_;
  const Progress& progress_;
  Pass pass_ = Pass::measure;
  std::byte* memory_ = nullptr;
  std::size_t used_ = 0;
  ModelWeights weights_;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t done_bytes_ = 0;
};

constexpr std::array all_types = {tensor::DType::f32,  tensor::DType::f16,  tensor::DType::bf16,
                                  tensor::DType::q4_0, tensor::DType::q4_1, tensor::DType::q5_0,
                                  tensor::DType::q5_1, tensor::DType::q8_0, tensor::DType::q4_k,
                                  tensor::DType::q5_k, tensor::DType::q6_k};

/// Tells layouts apart by what packing does to a small matrix of each type, so that nobody has to
/// remember to number them.
std::string layout_key(const kernels::Kernels& kernels) {
  constexpr int outputs = 40;
  constexpr int inputs = 512;
  Sha256 hash;
  hash.update(kernels.numerics_class().data(), kernels.numerics_class().size());
  for (const tensor::DType dtype : all_types) {
    std::vector<std::byte> stored(outputs * tensor::row_bytes(dtype, inputs));
    for (std::size_t i = 0; i < stored.size(); ++i) {
      stored[i] = static_cast<std::byte>(i * 37 % 127 / 2);  // small, and finite in every type
    }
    const kernels::WeightView view{dtype, outputs, inputs, stored.data()};
    PackedMemory packed = PackedMemory::own(kernels.packed_bytes(view));
    kernels.pack(view, packed.data());
    hash.update(packed.data(), packed.size());
  }
  return hash.finish().to_string().substr(0, 32);
}

/// The packed weights in a file that is shared; nothing when that cannot be had.
Result<std::optional<ModelWeights>> load_shared(const ModelFile& model, Packer& packer,
                                                std::size_t bytes, const kernels::Kernels& kernels,
                                                const PackedCache& cache) {
  PackedFile file(cache.directory, cache.content.to_string() + "-" + layout_key(kernels), bytes);
  std::optional<PackedMemory> memory = file.find();
  Pass pass = Pass::use;
  if (!memory) {
    if (!file.lock(lock_patience)) return std::optional<ModelWeights>();
    memory = file.find();  // another process may have made it meanwhile
  }
  if (!memory) {
    memory = file.begin();
    pass = Pass::pack;
  }
  if (!memory) return std::optional<ModelWeights>();
  ModelWeights weights = packer.run(pass, memory->data());
  // Packed under the digest of another content they would be every later process's weights.
  BATON_TRY(model.check_unchanged());
  if (pass == Pass::pack) file.finish(*memory);
  weights.memory = std::move(*memory);
  return std::optional(std::move(weights));
}

}  // namespace

int Linear::outputs() const {
  int sum = 0;
  for (const kernels::PackedMatrix& piece : pieces) sum += piece.outputs;
  return sum;
}

Result<ModelWeights> load(const ModelFile& file, const Shape& shape,
                          const kernels::Kernels& kernels, const Progress& progress,
                          const std::optional<PackedCache>& cache) {
  BATON_ASSIGN(const std::vector<TensorSpec> specs, plan(shape));
  BATON_TRY(check(file, specs));
  Packer packer(file, shape, kernels, progress);
  const std::size_t bytes = packer.packed_bytes();
  if (cache && !cache->directory.empty() && bytes >= smallest_kept) {
    BATON_ASSIGN(std::optional<ModelWeights> shared,
                 load_shared(file, packer, bytes, kernels, *cache));
    if (shared) return std::move(*shared);
  }
  PackedMemory memory = PackedMemory::own(bytes);
  ModelWeights weights = packer.run(Pass::pack, memory.data());
  BATON_TRY(file.check_unchanged());
  weights.memory = std::move(memory);
  return weights;
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

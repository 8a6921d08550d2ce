#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <unistd.h>

#include "baton/weights/model_weights.h"

#include "support/models/random_model.h"
#include "support/models/rewrite.h"

namespace baton::weights {
namespace {

using modelfile::GgmlType;
using modelfile::ModelFile;
using testing::HasSubstr;

Shape shape_of(const test::RandomModel& spec) {
  Shape shape;
  shape.family = spec.family;
  shape.layers = spec.layers;
  shape.width = spec.width;
  shape.heads = spec.heads;
  shape.kv_heads = spec.kv_heads;
  shape.head_dim = spec.head_dim;
  shape.ffn_width = spec.ffn_width;
  shape.vocabulary = spec.vocabulary;
  shape.qk_norm = spec.family == "gemma3";
  shape.post_norms = spec.family == "gemma3";
  shape.qkv_bias = spec.bias;
  shape.tied_output = spec.tied_output;
  return shape;
}

class Load : public testing::Test {
 protected:
  Result<ModelWeights> load_file(const ModelFile& file, const Shape& shape,
                                 const Progress& progress = {}) {
    return load(file, shape, *kernels_, progress);
  }
  void expect_bad(const ModelFile& file, const Shape& shape, const std::string& words) {
    const auto weights = load_file(file, shape);
    ASSERT_TRUE(weights.has_error()) << words;
    EXPECT_EQ(weights.error().reason(), Reason::bad_model_file);
    EXPECT_THAT(weights.error().message(), HasSubstr(words));
  }

  kernels::ThreadPool pool_{1};
  std::unique_ptr<kernels::Kernels> kernels_ = kernels::make_kernels("ref", pool_).value();
};

/// The file's tensor as the packed matrix of `ref`, which is plain float32 rows.
bool holds(const kernels::PackedMatrix& packed, int first_output, const ModelFile& file,
           const std::string& name) {
  const auto bytes = file.tensor_bytes(*file.find_tensor(name));
  const std::size_t row_bytes = static_cast<std::size_t>(packed.inputs) * sizeof(float);
  return std::memcmp(packed.data + static_cast<std::size_t>(first_output) * row_bytes, bytes.data(),
                     bytes.size()) == 0;
}

TEST_F(Load, puts_tensors_of_one_type_that_share_their_input_side_by_side) {
  const test::RandomModel spec{.bias = true};
  const ModelFile file = test::make_random_model(spec);
  const ModelWeights weights = load_file(file, shape_of(spec)).value();
  ASSERT_EQ(weights.layers.size(), 2u);
  const Linear& qkv = weights.layers[1].qkv;
  ASSERT_EQ(qkv.pieces.size(), 1u);
  EXPECT_EQ(qkv.inputs(), 64);
  EXPECT_EQ(qkv.outputs(), 64 + 32 + 32);
  EXPECT_TRUE(holds(qkv.pieces[0], 0, file, "blk.1.attn_q.weight"));
  EXPECT_TRUE(holds(qkv.pieces[0], 64, file, "blk.1.attn_k.weight"));
  EXPECT_TRUE(holds(qkv.pieces[0], 96, file, "blk.1.attn_v.weight"));
  EXPECT_EQ(qkv.bias.size(), 128u);
  EXPECT_TRUE(holds(weights.layers[0].gate_up.pieces[0], 96, file, "blk.0.ffn_up.weight"));
}

TEST_F(Load, keeps_tensors_of_different_types_apart) {
  const test::RandomModel spec{};
  const ModelFile f32 = test::make_random_model(spec);
  test::Changes without_v;
  without_v.dropped = {"blk.0.attn_v.weight"};
  // rewrite() adds fields before tensors; the tensor of another type comes first in the file.
  without_v.add_fields = [](test::GgufWriter& writer) {
    writer.add_tensor("blk.0.attn_v.weight", GgmlType::bf16, {64, 32},
                      std::vector<std::byte>(64 * 32 * 2));
  };
  const ModelWeights weights = load_file(test::rewrite(f32, without_v), shape_of(spec)).value();
  const Linear& qkv = weights.layers[0].qkv;
  ASSERT_EQ(qkv.pieces.size(), 2u);
  EXPECT_EQ(qkv.pieces[0].outputs, 96);
  EXPECT_EQ(qkv.pieces[1].outputs, 32);
  EXPECT_EQ(qkv.pieces[1].dtype, tensor::DType::bf16);
  EXPECT_EQ(qkv.outputs(), 128);
}

TEST_F(Load, uses_the_embedding_as_output_when_it_is_tied) {
  const test::RandomModel spec{.tied_output = true};
  const ModelWeights weights = load_file(test::make_random_model(spec), shape_of(spec)).value();
  ASSERT_EQ(weights.output.pieces.size(), 1u);
  EXPECT_EQ(weights.output.pieces[0].data, weights.token_embedding.data);
}

TEST_F(Load, refuses_a_missing_tensor_by_name) {
  const test::RandomModel spec{.family = "gemma3", .window = 20, .bias = false};
  const ModelFile whole = test::make_random_model(spec);
  for (const modelfile::TensorInfo& tensor : whole.tensors()) {
    test::Changes changes;
    changes.dropped = {std::string(tensor.name)};
    expect_bad(test::rewrite(whole, changes), shape_of(spec), std::string(tensor.name));
  }
}

TEST_F(Load, refuses_a_wrong_shape_with_the_expected_and_the_found_one) {
  const test::RandomModel spec{};
  const ModelFile file = test::make_random_model(spec);
  Shape narrow = shape_of(spec);
  narrow.ffn_width = 64;
  expect_bad(file, narrow,
             "tensor 'blk.0.ffn_gate.weight': expected shape [64, 64], found [64, 96]");
  Shape few = shape_of(spec);
  few.vocabulary = 100;
  expect_bad(file, few, "tensor 'token_embd.weight': expected shape [64, 100], found [64, 101]");
  Shape wide = shape_of(spec);
  wide.width = 128;
  expect_bad(file, wide, "expected shape [128, 101], found [64, 101]");
}

TEST_F(Load, refuses_a_tensor_that_it_would_not_use) {
  const test::RandomModel spec{.bias = true};
  Shape forgetful = shape_of(spec);
  forgetful.qkv_bias = false;
  expect_bad(test::make_random_model(spec), forgetful, "'blk.0.attn_q.bias'");
  Shape shallow = shape_of(spec);
  shallow.layers = 1;
  expect_bad(test::make_random_model(spec), shallow, "'blk.1.attn_norm.weight'");
}

TEST_F(Load, refuses_a_norm_of_a_block_type) {
  const test::RandomModel spec{};
  test::Changes changes;
  changes.dropped = {"output_norm.weight"};
  changes.add_fields = [](test::GgufWriter& writer) {
    writer.add_tensor("output_norm.weight", GgmlType::q8_0, {64}, std::vector<std::byte>(68));
  };
  expect_bad(test::rewrite(test::make_random_model(spec), changes), shape_of(spec),
             "tensor 'output_norm.weight': expected type F32, F16 or BF16, found Q8_0");
}

TEST_F(Load, tells_its_progress_ascending_up_to_one) {
  const test::RandomModel spec{};
  std::vector<double> told;
  ASSERT_TRUE(load_file(test::make_random_model(spec), shape_of(spec), [&](double fraction) {
                told.push_back(fraction);
              }).has_value());
  EXPECT_GT(told.size(), 5u);
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_EQ(told.back(), 1);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they take memory, too
/// A field of /proc/self/status in bytes.
std::size_t own_status(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoull(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

TEST_F(Load, R14_takes_less_than_twice_the_files_size_beyond_the_packed_data) {
  const test::RandomModel spec{.layers = 6,
                               .width = 512,
                               .heads = 8,
                               .kv_heads = 8,
                               .head_dim = 64,
                               .ffn_width = 2048,
                               .vocabulary = 999};
  const auto path = std::filesystem::temp_directory_path() /
                    ("baton-load-" + std::to_string(::getpid()) + ".gguf");
  test::write_random_model(spec, path);
  {
    const ModelFile file = ModelFile::open(path).value();
    // 5 sets the high-water mark back to what is resident now.
    std::ofstream("/proc/self/clear_refs") << 5;
    const std::size_t before = own_status("VmRSS");
    const bool measurable = own_status("VmHWM") < before + before / 8;
    const auto weights = load_file(file, shape_of(spec)).value();
    const std::size_t peak = own_status("VmHWM") - before;
    if (measurable) {
      // Much less, in fact: one linear operation's tensors, twice.
      EXPECT_LT(peak, weights.memory.size() + file.size_bytes() / 2);
      EXPECT_GT(peak, weights.memory.size() / 2);
    }
  }
  std::filesystem::remove(path);
}
#endif

}  // namespace
}  // namespace baton::weights

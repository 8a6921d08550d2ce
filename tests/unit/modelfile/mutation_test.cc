// The reader over broken variants of one valid file and over the stored corpus: each gives a model
// or a typed error; the sanitizer builds see to it that nothing else is read.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include <gtest/gtest.h>

#include "baton/modelfile/model_file.h"

#include "support/gguf/gguf_writer.h"

namespace baton::modelfile {
namespace {

std::vector<std::byte> small_file() {
  return test::GgufWriter()
      .add_string("general.architecture", "llama")
      .add_u32("llama.block_count", 2)
      .add_f32("llama.eps", 1e-5F)
      .add_bool("tokenizer.bos", true)
      .add_strings("tokenizer.tokens", {"a", "bc", "", "def"})
      .add_i32s("tokenizer.types", {1, 1, 3})
      .add_f32s("tokenizer.scores", {0.5F, 1.0F})
      .add_bools("pattern", {true, false})
      .add_f32_tensor("norm", {4}, std::vector<float>{1, 2, 3, 4})
      .add_tensor("weight", GgmlType::q8_0, {32, 2}, std::vector<std::byte>(68))
      .bytes();
}

// Reads everything that an accepted file offers, so that a sanitizer sees a bad view.
std::uint64_t touch(const ModelFile& file) {
  std::uint64_t sum = 0;
  for (const MetadataEntry& entry : file.metadata().entries()) {
    for (const std::byte b : entry.value) sum += static_cast<std::uint8_t>(b);
    if (const auto strings = file.metadata().strings(entry.key); strings.has_value()) {
      for (const std::string_view text : *strings) sum += text.size();
    }
    if (const auto ints = file.metadata().ints(entry.key); ints.has_value()) {
      for (std::size_t i = 0; i < ints->size(); ++i) sum += static_cast<std::uint64_t>((*ints)[i]);
    }
    if (const auto text = file.metadata().string(entry.key); text.has_value()) sum += text->size();
  }
  for (const TensorInfo& tensor : file.tensors()) {
    EXPECT_EQ(file.find_tensor(tensor.name), &tensor);
    for (const std::byte b : file.tensor_bytes(tensor)) sum += static_cast<std::uint8_t>(b);
  }
  return sum;
}

// True when the file was accepted.
bool check(std::vector<std::byte> bytes) {
  const Result<ModelFile> file = ModelFile::parse(std::move(bytes));
  if (file.has_value()) {
    touch(*file);
    return true;
  }
  EXPECT_EQ(file.error().reason(), Reason::bad_model_file);
  EXPECT_FALSE(file.error().message().empty());
  EXPECT_EQ(file.error().message().find('\n'), std::string::npos);
  return false;
}

TEST(Mutation, EveryTruncationIsRefused) {
  const std::vector<std::byte> whole = small_file();
  ASSERT_TRUE(check(whole));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(check({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)}))
        << length;
  }
}

TEST(Mutation, TwentyThousandMutationsGiveAModelOrATypedError) {
  const std::vector<std::byte> whole = small_file();
  std::mt19937_64 random(20'240'601);
  const auto below = [&](std::size_t bound) { return random() % bound; };
  constexpr std::uint64_t edges[] = {0, 1, 5, 255, 1ULL << 31, 1ULL << 42, 1ULL << 63, ~0ULL};
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes = whole;
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
      if (below(2) == 0) {
        bytes[below(bytes.size())] = static_cast<std::byte>(random());
      } else {
        const std::uint64_t edge = edges[below(std::size(edges))];
        std::memcpy(bytes.data() + below(bytes.size() - sizeof(edge)), &edge, sizeof(edge));
      }
    }
    accepted += check(std::move(bytes)) ? 1 : 0;
  }
  // Both outcomes must have been exercised.
  EXPECT_GT(accepted, 200);
  EXPECT_LT(accepted, 19'000);
}

TEST(Mutation, TheStoredCorpusGivesModelsOrTypedErrors) {
  const std::filesystem::path folder = std::filesystem::path(BATON_SOURCE_DIR) / "tests/fuzz/gguf";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::vector<char> chars{std::istreambuf_iterator<char>(in), {}};
    const auto bytes = std::as_bytes(std::span(chars));
    const bool accepted = check({bytes.begin(), bytes.end()});
    EXPECT_EQ(accepted, entry.path().filename().string().starts_with("good_")) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 15);
}

}  // namespace
}  // namespace baton::modelfile

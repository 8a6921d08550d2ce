#include "packed_file.h"

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "baton/weights/model_weights.h"

#include "support/models/random_model.h"

namespace baton::weights {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t bytes = 10'000;

class PackedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("baton-packed-" + std::to_string(getpid()));
    fs::remove_all(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  void make(const std::string& key, std::byte value) {
    PackedFile file(folder, key, bytes);
    ASSERT_TRUE(file.lock(std::chrono::seconds(5)));
    auto memory = file.begin();
    ASSERT_TRUE(memory.has_value());
    std::memset(memory->data(), static_cast<int>(value), bytes);
    file.finish(*memory);
  }
  std::optional<PackedMemory> find(const std::string& key) const {
    return PackedFile(folder, key, bytes).find();
  }
  fs::path path(const std::string& key) const { return folder / "packed" / (key + ".packed"); }

  fs::path folder;
};

TEST_F(PackedFileTest, WhatOneMadeAnotherFinds) {
  EXPECT_FALSE(find("a").has_value());
  make("a", std::byte{7});
  const auto found = find("a");
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->shared());
  EXPECT_EQ(found->size(), bytes);
  for (const std::byte each : found->span()) ASSERT_EQ(each, std::byte{7});
  EXPECT_FALSE(PackedFile(folder, "a", bytes + 1).find().has_value());
}

TEST_F(PackedFileTest, OneChangedBitOrAShorterFileIsNotFound) {
  make("a", std::byte{7});
  {
    std::fstream file(path("a"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(4096 + bytes - 1));
    file.put(6);
  }
  EXPECT_FALSE(find("a").has_value());
  make("a", std::byte{7});
  ASSERT_TRUE(find("a").has_value());
  fs::resize_file(path("a"), 4096 + bytes - 1);
  EXPECT_FALSE(find("a").has_value());
}

TEST_F(PackedFileTest, WhileOneMakesItOthersWaitAndAreTold) {
  PackedFile first(folder, "a", bytes);
  ASSERT_TRUE(first.lock(std::chrono::seconds(5)));
  EXPECT_FALSE(PackedFile(folder, "a", bytes).lock(std::chrono::milliseconds(1)));
}

TEST_F(PackedFileTest, TheOneUsedLongestAgoMakesRoom) {
  for (std::size_t i = 0; i < most_packed_files; ++i) {
    make(std::to_string(i), std::byte{1});
    // Ages in the order of their making.
    const auto age = std::chrono::hours(100 - static_cast<int>(i));
    fs::last_write_time(path(std::to_string(i)), fs::file_time_type::clock::now() - age);
  }
  EXPECT_TRUE(find("0").has_value());  // used now
  make("new", std::byte{1});
  EXPECT_TRUE(find("0").has_value());
  EXPECT_FALSE(find("1").has_value());
  EXPECT_TRUE(find("2").has_value());
}

TEST_F(PackedFileTest, AFolderThatCannotBeUsedIsNoError) {
  std::ofstream(folder) << "a file where the folder should be";
  PackedFile file(folder, "a", bytes);
  EXPECT_FALSE(file.find().has_value());
  EXPECT_FALSE(file.lock(std::chrono::seconds(5)));
}

TEST_F(PackedFileTest, WhatAKilledProcessLeftUnfinishedIsRemoved) {
  {
    PackedFile file(folder, "dead", bytes);
    ASSERT_TRUE(file.lock(std::chrono::seconds(5)));
    ASSERT_TRUE(file.begin().has_value());
  }
  ASSERT_TRUE(fs::exists(folder / "packed" / "dead.partial"));
  make("a", std::byte{1});
  EXPECT_FALSE(fs::exists(folder / "packed" / "dead.partial"));
}

/// A model whose packed weights are above the size from which they are kept.
class PackedModel : public PackedFileTest {
 protected:
  static test::RandomModel spec() {
    test::RandomModel spec;
    spec.width = 512;
    spec.heads = 8;
    spec.head_dim = 64;
    spec.ffn_width = 1536;
    return spec;
  }
  static Shape shape() {
    const test::RandomModel from = spec();
    Shape shape;
    shape.family = from.family;
    shape.layers = from.layers;
    shape.width = from.width;
    shape.heads = from.heads;
    shape.kv_heads = from.kv_heads;
    shape.head_dim = from.head_dim;
    shape.ffn_width = from.ffn_width;
    shape.vocabulary = from.vocabulary;
    return shape;
  }
  ModelWeights load_with(const std::string& set, const std::optional<PackedCache>& cache) {
    const auto kernels = kernels::make_kernels(set, pool_).value();
    return load(file_, shape(), *kernels, {}, cache).value();
  }
  PackedCache cache() const { return {folder, {}}; }
  std::size_t kept() const {
    return static_cast<std::size_t>(
        std::count_if(fs::directory_iterator(folder / "packed"), fs::directory_iterator(),
                      [](const auto& each) { return each.path().extension() == ".packed"; }));
  }

  kernels::ThreadPool pool_{1};
  modelfile::ModelFile file_ = test::make_random_model(spec());
};

TEST_F(PackedModel, MappedWeightsAreThePackedOnes) {
  const ModelWeights own = load_with("cpu", std::nullopt);
  EXPECT_FALSE(own.memory.shared());
  for (int round = 0; round < 2; ++round) {
    const ModelWeights mapped = load_with("cpu", cache());
    EXPECT_TRUE(mapped.memory.shared());
    ASSERT_EQ(mapped.memory.size(), own.memory.size());
    EXPECT_EQ(std::memcmp(mapped.memory.data(), own.memory.data(), own.memory.size()), 0);
    const auto offset = [](const ModelWeights& weights, const kernels::PackedMatrix& matrix) {
      return matrix.data - weights.memory.data();
    };
    EXPECT_EQ(offset(mapped, mapped.layers[1].down.pieces[0]),
              offset(own, own.layers[1].down.pieces[0]));
    EXPECT_EQ(mapped.layers[1].ffn_norm, own.layers[1].ffn_norm);
    EXPECT_EQ(kept(), 1U);
  }
}

TEST_F(PackedModel, SetsOfOneClassShareAFileAndOtherClassesDoNot) {
  load_with("spec", cache());
  load_with("cpu", cache());
  EXPECT_EQ(kept(), 1U);
  load_with("ref", cache());
  EXPECT_EQ(kept(), 2U);
}

TEST_F(PackedModel, ADamagedFileIsMadeAnew) {
  const ModelWeights own = load_with("cpu", std::nullopt);
  load_with("cpu", cache());
  const fs::path path = [&] {
    for (const auto& each : fs::directory_iterator(folder / "packed")) {
      if (each.path().extension() == ".packed") return each.path();
    }
    return fs::path();
  }();
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100'000);
    file.put(1);
    file.put(2);
  }
  const ModelWeights again = load_with("cpu", cache());
  EXPECT_EQ(std::memcmp(again.memory.data(), own.memory.data(), own.memory.size()), 0);
}

TEST_F(PackedModel, OfAFileThatIsOverwrittenMeanwhileNothingIsKept) {
  fs::create_directories(folder);
  const fs::path path = folder / "model.gguf";
  test::write_random_model(spec(), path);
  const auto kernels = kernels::make_kernels("cpu", pool_).value();
  for (const std::optional<PackedCache>& packed : {std::optional(cache()), {}}) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
    const auto file = modelfile::ModelFile::open(path).value();
    const auto overwrite = [&](double) {
      std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
      stream.seekp(-1, std::ios::end);
      stream.put(1);
    };
    const auto weights = load(file, shape(), *kernels, overwrite, packed);
    ASSERT_TRUE(weights.has_error());
    EXPECT_EQ(weights.error().reason(), Reason::io_error);
    EXPECT_THAT(weights.error().message(), testing::HasSubstr(path.string()));
    EXPECT_TRUE(!packed || kept() == 0U);
  }
}

}  // namespace
}  // namespace baton::weights

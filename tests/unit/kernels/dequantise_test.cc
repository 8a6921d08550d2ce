#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "baton/kernels/kernels.h"

namespace baton::kernels {
namespace {

struct Case {
  tensor::DType dtype;
  std::vector<std::byte> blocks;
  std::vector<float> expected;
};

std::vector<Case> read_cases() {
  std::ifstream file(BATON_SOURCE_DIR "/tests/unit/kernels/data/dequant.bin", std::ios::binary);
  const std::string data((std::istreambuf_iterator<char>(file)), {});
  std::vector<Case> cases;
  for (std::size_t at = 0; at < data.size();) {
    std::uint32_t head[3];
    std::memcpy(head, data.data() + at, sizeof head);
    at += sizeof head;
    Case c{static_cast<tensor::DType>(head[0]), std::vector<std::byte>(head[2]),
           std::vector<float>(head[1])};
    std::memcpy(c.blocks.data(), data.data() + at, head[2]);
    at += head[2];
    std::memcpy(c.expected.data(), data.data() + at, head[1] * sizeof(float));
    at += head[1] * sizeof(float);
    cases.push_back(std::move(c));
  }
  return cases;
}

void expect_all_equal(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    std::vector<float> values(c.expected.size());
    dequantise(c.dtype, c.blocks.data(), values.size(), values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]),
                std::bit_cast<std::uint32_t>(c.expected[i]))
          << tensor::info(c.dtype).name << " value " << i << ": " << values[i] << " instead of "
          << c.expected[i];
    }
  }
}

TEST(Dequantise, EveryTypeEqualsTheReferenceBitForBit) {
  const std::vector<Case> cases = read_cases();
  ASSERT_EQ(cases.size(), 11U);
  expect_all_equal(cases);
}

TEST(Dequantise, DoesNotDependOnTheDenormalMode) {
  const std::vector<Case> cases = read_cases();
  // On a thread of its own: the mode outlives the test.
  std::thread([&cases] {
    set_engine_float_mode();
    expect_all_equal(cases);
  }).join();
}

}  // namespace
}  // namespace baton::kernels

// Crafted files: each is refused before anything is allocated for it, with one line that names what
// is wrong.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "baton/modelfile/model_file.h"

#include "support/gguf/gguf_writer.h"

namespace baton::modelfile {
namespace {

using test::GgufWriter;
using test::raw_bytes;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t huge = 1ULL << 63;

std::string refusal(std::vector<std::byte> bytes) {
  const Result<ModelFile> file = ModelFile::parse(std::move(bytes));
  if (file.has_value()) return "accepted";
  EXPECT_EQ(file.error().reason(), Reason::bad_model_file);
  EXPECT_THAT(file.error().message(), Not(HasSubstr("\n")));
  return file.error().message();
}

std::string refusal(const GgufWriter& writer) { return refusal(writer.bytes()); }

template <typename T>
std::vector<std::byte> patched(std::vector<std::byte> bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  return bytes;
}

constexpr std::size_t version_at = 4;
constexpr std::size_t tensor_count_at = 8;
constexpr std::size_t field_count_at = 16;
constexpr std::size_t first_field_at = 24;

std::vector<std::byte> good_file() {
  return GgufWriter().add_u32("a.b", 1).add_f32_tensor("t", {2}, std::vector<float>{1, 2}).bytes();
}

TEST(HostileFile, IsNotGgufOrOfAnotherVersion) {
  EXPECT_THAT(refusal(patched(good_file(), 0, 'X')), HasSubstr("not a GGUF file"));
  EXPECT_THAT(refusal(std::vector<std::byte>{}), HasSubstr("not a GGUF file"));
  EXPECT_THAT(refusal(patched(good_file(), version_at, 1U)), HasSubstr("version 1"));
  EXPECT_THAT(refusal(patched(good_file(), version_at, 4U)), HasSubstr("version 4"));
  EXPECT_THAT(refusal(patched(good_file(), version_at, 0x03000000U)), HasSubstr("big-endian"));
}

TEST(HostileFile, Ldr01CountsBeyondTheFileAreRefused) {
  EXPECT_THAT(refusal(patched(good_file(), field_count_at, huge)),
              HasSubstr("the metadata field count 9223372036854775808"));
  EXPECT_THAT(refusal(patched(good_file(), tensor_count_at, huge)), HasSubstr("the tensor count"));
  EXPECT_THAT(refusal(patched(good_file(), field_count_at, std::uint64_t{3})),
              Not(HasSubstr("accepted")));
}

TEST(HostileFile, Ldr01StringLengthsBeyondTheFileAreRefused) {
  EXPECT_THAT(refusal(patched(good_file(), first_field_at, ~0ULL)),
              HasSubstr("metadata field number 0: the file ends inside its key"));
  const auto length = raw_bytes<std::uint64_t>({~0ULL});
  EXPECT_THAT(refusal(GgufWriter().add_raw("x.s", 8, length)),
              HasSubstr("'x.s' is longer than the rest of the file"));
  const auto strings = raw_bytes<std::uint32_t>({8, 2, 0, 0, 0, 0xfffffff0, 0xffffffff, 0});
  EXPECT_THAT(refusal(GgufWriter().add_raw("x.a", 9, strings)),
              HasSubstr("'x.a' has a string, element 1, that is longer"));
}

TEST(HostileFile, Ldr01TypesAndNestedArraysAreRefused) {
  const auto one = raw_bytes<std::uint32_t>({1});
  EXPECT_THAT(refusal(GgufWriter().add_raw("x.t", 255, one)),
              HasSubstr("'x.t' has the unknown value type 255"));
  const auto unknown_elements = raw_bytes<std::uint32_t>({13, 1, 0, 0});
  EXPECT_THAT(refusal(GgufWriter().add_raw("x.t", 9, unknown_elements)),
              HasSubstr("unknown array element type 13"));
  const auto nested = raw_bytes<std::uint32_t>({9, 1, 0, 4, 0, 0});
  EXPECT_THAT(refusal(GgufWriter().add_raw("x.t", 9, nested)), HasSubstr("array of arrays"));
  const auto two = raw_bytes<std::uint8_t>({2});
  EXPECT_THAT(refusal(GgufWriter().add_raw("x.t", 7, two)), HasSubstr("neither 0 nor 1"));
}

TEST(HostileFile, Ldr01ArrayCountsBeyondTheFileAreRefused) {
  for (const std::uint32_t element : {0U, 5U, 8U, 10U}) {
    for (const std::uint32_t high : {0x80000000U, 0x20000000U, 0x00000001U}) {
      const auto array = raw_bytes<std::uint32_t>({element, 1, high});
      EXPECT_THAT(refusal(GgufWriter().add_raw("x.n", 9, array)), HasSubstr("'x.n' has"))
          << element;
    }
  }
}

TEST(HostileFile, Ldr01Ldr05DimensionCountsAreLimited) {
  EXPECT_THAT(refusal(GgufWriter().add_raw_tensor("t", 0, {1, 1, 1, 1, 1}, 0)),
              HasSubstr("tensor 't' has 5 dimensions"));
  EXPECT_THAT(refusal(GgufWriter().add_raw_tensor("t", 0, std::vector<std::uint64_t>(64, 1), 0)),
              HasSubstr("tensor 't' has 64 dimensions"));
  EXPECT_THAT(refusal(GgufWriter().add_raw_tensor("t", 0, {}, 0)), HasSubstr("0 dimensions"));
}

TEST(HostileFile, Ldr01TensorTypesThatAreNotLoadedAreNamed) {
  EXPECT_THAT(refusal(GgufWriter().add_raw_tensor("t", 255, {32}, 0)),
              HasSubstr("tensor 't' has the element type type 255"));
  EXPECT_THAT(refusal(GgufWriter().add_raw_tensor("t", 16, {256}, 0)), HasSubstr("IQ2_XXS"));
}

TEST(HostileFile, Ldr02AZeroDimensionIsRefused) {
  const std::vector<std::byte> tiny = GgufWriter().add_raw_tensor("t", 2, {0}, 0).bytes();
  EXPECT_LE(tiny.size(), 96U);
  EXPECT_THAT(refusal(tiny), HasSubstr("tensor 't' has the size 0 in dimension 0"));
  EXPECT_THAT(refusal(GgufWriter().add_raw_tensor("t", 0, {4, 0}, 0)),
              HasSubstr("size 0 in dimension 1"));
}

TEST(HostileFile, Ldr02EmptyAndOverlongNamesAreRefused) {
  EXPECT_THAT(refusal(GgufWriter().add_u32("", 1)), HasSubstr("number 0 has an empty key"));
  EXPECT_THAT(refusal(GgufWriter().add_u32(std::string(70'000, 'k'), 1)),
              HasSubstr("more than 65535 bytes"));
  EXPECT_THAT(refusal(GgufWriter().add_raw_tensor("", 0, {1}, 0)), HasSubstr("an empty name"));
  EXPECT_THAT(refusal(GgufWriter().add_raw_tensor(std::string(65, 'n'), 0, {1}, 0)),
              HasSubstr("more than 64 bytes"));
}

TEST(HostileFile, Ldr03ShapesThatOverflowAreRefused) {
  constexpr std::uint64_t wide = (1ULL << 42) + 1;
  for (const auto& dims : std::vector<std::vector<std::uint64_t>>{
           {wide}, {4, wide}, {wide, wide}, {1ULL << 32, 1ULL << 32}, {2, 2, 2, 1ULL << 61}}) {
    EXPECT_THAT(refusal(GgufWriter().add_raw_tensor("t", 0, dims, 0)),
                HasSubstr("tensor 't' has a shape larger than the file"));
  }
  EXPECT_THAT(refusal(GgufWriter().add_raw_tensor("t", 2, {48}, 0)),
              HasSubstr("no multiple of the block of Q4_0"));
}

TEST(HostileFile, Ldr03OffsetsOutsideTheFileAreRefused) {
  for (const std::uint64_t offset : {~std::uint64_t{31}, huge, std::uint64_t{32}}) {
    EXPECT_THAT(refusal(GgufWriter().add_raw_tensor("t", 0, {1}, offset)),
                HasSubstr("tensor 't' ends beyond the end of the file"));
  }
  EXPECT_THAT(refusal(GgufWriter().add_raw_tensor("t", 0, {1}, 4)), HasSubstr("not aligned to 32"));
}

TEST(HostileFile, Ldr03OverlappingAndRepeatedTensorsAreRefused) {
  const std::vector<float> values(16);
  GgufWriter overlapping;
  overlapping.add_f32_tensor("first", {16}, values).add_raw_tensor("second", 0, {4}, 32);
  EXPECT_THAT(refusal(overlapping), HasSubstr("tensor 'second' overlaps tensor 'first'"));
  GgufWriter twice;
  twice.add_f32_tensor("same", {16}, values).add_f32_tensor("same", {16}, values);
  EXPECT_THAT(refusal(twice), HasSubstr("tensor 'same' appears twice"));
  EXPECT_THAT(refusal(GgufWriter().add_u32("k", 1).add_u32("k", 1)),
              HasSubstr("metadata field 'k' appears twice"));
}

TEST(HostileFile, Ldr03ATruncatedLastTensorIsRefusedByName) {
  std::vector<std::byte> bytes = good_file();
  bytes.pop_back();
  EXPECT_THAT(refusal(bytes), HasSubstr("tensor 't' ends beyond"));
}

TEST(HostileFile, AlignmentMustBeAPowerOfTwoInRange) {
  for (const std::uint32_t alignment : {0U, 1U, 24U, 1U << 21, 0x80000000U}) {
    EXPECT_THAT(refusal(GgufWriter().add_u32("general.alignment", alignment)),
                HasSubstr("metadata field 'general.alignment' is " + std::to_string(alignment)));
  }
  EXPECT_THAT(refusal(GgufWriter().add_string("general.alignment", "32")),
              HasSubstr("expected an integer"));
}

TEST(HostileFile, NamesInMessagesAreMadePrintable) {
  const std::string name = refusal(GgufWriter().add_raw_tensor("a\n\x1b[31m\xff", 99, {1}, 0));
  EXPECT_THAT(name, HasSubstr("'a\\x0a\\x1b[31m\\xff'"));
}

}  // namespace
}  // namespace baton::modelfile

#include "baton/modelfile/ggml_type.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "baton/base/check.h"

namespace baton::modelfile {
namespace {

constexpr std::array loaded_types = {
    GgmlTypeInfo{GgmlType::f32, "F32", 1, 4},       GgmlTypeInfo{GgmlType::f16, "F16", 1, 2},
    GgmlTypeInfo{GgmlType::bf16, "BF16", 1, 2},     GgmlTypeInfo{GgmlType::q4_0, "Q4_0", 32, 18},
    GgmlTypeInfo{GgmlType::q4_1, "Q4_1", 32, 20},   GgmlTypeInfo{GgmlType::q5_0, "Q5_0", 32, 22},
    GgmlTypeInfo{GgmlType::q5_1, "Q5_1", 32, 24},   GgmlTypeInfo{GgmlType::q8_0, "Q8_0", 32, 34},
    GgmlTypeInfo{GgmlType::q4_k, "Q4_K", 256, 144}, GgmlTypeInfo{GgmlType::q5_k, "Q5_K", 256, 176},
    GgmlTypeInfo{GgmlType::q6_k, "Q6_K", 256, 210},
};

struct NumberedName {
  std::uint32_t number;
  std::string_view name;
};

// Types of the format that are refused; named so that the error says what the file holds.
constexpr std::array refused_types = {
    NumberedName{9, "Q8_1"},     NumberedName{10, "Q2_K"},    NumberedName{11, "Q3_K"},
    NumberedName{15, "Q8_K"},    NumberedName{16, "IQ2_XXS"}, NumberedName{17, "IQ2_XS"},
    NumberedName{18, "IQ3_XXS"}, NumberedName{19, "IQ1_S"},   NumberedName{20, "IQ4_NL"},
    NumberedName{21, "IQ3_S"},   NumberedName{22, "IQ2_S"},   NumberedName{23, "IQ4_XS"},
    NumberedName{24, "I8"},      NumberedName{25, "I16"},     NumberedName{26, "I32"},
    NumberedName{27, "I64"},     NumberedName{28, "F64"},     NumberedName{29, "IQ1_M"},
    NumberedName{34, "TQ1_0"},   NumberedName{35, "TQ2_0"},   NumberedName{39, "MXFP4"},
    NumberedName{40, "NVFP4"},   NumberedName{41, "Q1_0"},
};

const GgmlTypeInfo* find_loaded(std::uint32_t number) {
  const auto found = std::find_if(loaded_types.begin(), loaded_types.end(), [&](const auto& entry) {
    return static_cast<std::uint32_t>(entry.type) == number;
  });
  return found == loaded_types.end() ? nullptr : &*found;
}

}  // namespace

const GgmlTypeInfo& info(GgmlType type) {
  const GgmlTypeInfo* found = find_loaded(static_cast<std::uint32_t>(type));
  BATON_CHECK(found != nullptr);
  return *found;
}

std::optional<GgmlType> ggml_type_from_number(std::uint32_t number) {
  const GgmlTypeInfo* found = find_loaded(number);
  if (found == nullptr) return std::nullopt;
  return found->type;
}

std::string ggml_type_name(std::uint32_t number) {
  if (const GgmlTypeInfo* found = find_loaded(number)) return std::string(found->name);
  for (const NumberedName& refused : refused_types) {
    if (refused.number == number) return std::string(refused.name);
  }
  return "type " + std::to_string(number);
}

}  // namespace baton::modelfile

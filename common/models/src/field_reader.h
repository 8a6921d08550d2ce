// Hyper-parameters of a model file with their ranges: nothing out of range goes further (R14, R19).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "baton/base/result.h"
#include "baton/modelfile/metadata.h"

namespace baton::models {

template <typename T>
struct Range {
  T low;
  T high;
};

/// Reads the fields "<architecture>.<key>". Errors name the field, the value and the range.
class FieldReader {
 public:
  FieldReader(const modelfile::Metadata& metadata, std::string_view architecture)
      : metadata_(metadata), prefix_(std::string(architecture) + ".") {}

  const modelfile::Metadata& metadata() const { return metadata_; }
  std::string key(std::string_view name) const { return prefix_ + std::string(name); }

  Result<std::int64_t> integer(std::string_view name, Range<std::int64_t> range) const;
  Result<std::int64_t> integer_or(std::string_view name, std::int64_t missing,
                                  Range<std::int64_t> range) const;
  Result<std::optional<std::int64_t>> find_integer(std::string_view name,
                                                   Range<std::int64_t> range) const;
  /// A number, or an array of numbers that are all equal (one per layer).
  Result<std::optional<std::int64_t>> find_uniform(std::string_view name,
                                                   Range<std::int64_t> range) const;

  Result<float> real(std::string_view name, Range<float> range) const;
  Result<float> real_or(std::string_view name, float missing, Range<float> range) const;
  /// Not-a-number is out of every range.
  Result<std::optional<float>> find_real(std::string_view name, Range<float> range) const;

  Error bad(std::string_view name, std::string_view problem) const;

 private:
  const modelfile::Metadata& metadata_;
  std::string prefix_;
};

}  // namespace baton::models

// Views of metadata arrays inside an open model file. Nothing is copied: a vocabulary of a quarter
// million strings costs no memory beyond the file's own pages (R14). A view lives as long as its
// ModelFile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>

namespace baton::modelfile {

/// Types of metadata values; the numbers are those of the file.
enum class ValueType : std::uint8_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// Array of strings, walked in order: each is stored behind its own length, so there is no access
/// by index. Every length was checked when the file was opened. The bytes may be any (not only
/// UTF-8).
class StringArray {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = std::string_view;

    Iterator() = default;
    explicit Iterator(const std::byte* at) : at_(at) {}

    std::string_view operator*() const {
      return {reinterpret_cast<const char*>(at_) + sizeof(std::uint64_t), length()};
    }
    Iterator& operator++() {
      at_ += sizeof(std::uint64_t) + length();
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    std::size_t length() const {
      std::uint64_t length_bytes = 0;
      std::memcpy(&length_bytes, at_, sizeof(length_bytes));
      return length_bytes;
    }

    const std::byte* at_ = nullptr;
  };

  StringArray() = default;
  /// `bytes` holds exactly `count` strings (checked by the caller).
  StringArray(std::span<const std::byte> bytes, std::size_t count) : bytes_(bytes), count_(count) {}

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  Iterator begin() const { return Iterator(bytes_.data()); }
  Iterator end() const { return Iterator(bytes_.data() + bytes_.size()); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t count_ = 0;
};

/// Array of integers of any width or of booleans, read as int64. Values of u64 arrays above the
/// range of int64 are refused when the view is asked for.
class IntArray {
 public:
  IntArray() = default;
  IntArray(std::span<const std::byte> bytes, ValueType type, std::size_t count)
      : bytes_(bytes), type_(type), count_(count) {}

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  /// index < size().
  std::int64_t operator[](std::size_t index) const;

 private:
  std::span<const std::byte> bytes_;
  ValueType type_ = ValueType::i32;
  std::size_t count_ = 0;
};

/// Array of f32 or f64, read as float.
class FloatArray {
 public:
  FloatArray() = default;
  FloatArray(std::span<const std::byte> bytes, ValueType type, std::size_t count)
      : bytes_(bytes), type_(type), count_(count) {}

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  /// index < size().
  float operator[](std::size_t index) const;

 private:
  std::span<const std::byte> bytes_;
  ValueType type_ = ValueType::f32;
  std::size_t count_ = 0;
};

}  // namespace baton::modelfile

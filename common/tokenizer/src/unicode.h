// The classes of code points that pre-tokenizers tell apart.
#pragma once

#include <cstdint>

namespace baton::tokenizer {

enum class CharClass : std::uint8_t {
  letter,  ///< general category L
  number,  ///< general category N
  space,   ///< White_Space
  other,
};

CharClass class_of(char32_t code_point);

}  // namespace baton::tokenizer

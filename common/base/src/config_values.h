// How the values of options are written: parsing, and writing them back so that they parse again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "baton/base/config.h"
#include "baton/base/result.h"

namespace baton {

Result<bool> parse_bool(std::string_view text);
Result<std::int64_t> parse_integer(std::string_view text);
Result<double> parse_real(std::string_view text);
Result<Duration> parse_duration(std::string_view text);
Result<std::uint64_t> parse_size(std::string_view text);
/// Parts between commas, blanks around them removed; an empty text is an empty list.
Result<std::vector<std::string>> parse_list(std::string_view text);

std::string duration_text(Duration duration);
std::string size_text(std::uint64_t bytes);
std::string list_text(const std::vector<std::string>& items);

}  // namespace baton

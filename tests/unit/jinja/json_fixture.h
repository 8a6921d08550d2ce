// Reads a fixture of tests/golden/jinja.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "baton/tokenizer/jinja/template.h"

namespace baton::tokenizer::jinja {

inline boost::json::value read_fixture(const std::string& name) {
  std::ifstream in(std::string(BATON_SOURCE_DIR "/tests/golden/jinja/") + name);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return boost::json::parse(text);
}

inline std::string string_of(const boost::json::value& value) {
  return std::string(value.as_string().data(), value.as_string().size());
}

/// Day and time for which the fixtures were made.
constexpr CivilTime fixture_time{2026, 11, 29, 12, 34, 56};

}  // namespace baton::tokenizer::jinja

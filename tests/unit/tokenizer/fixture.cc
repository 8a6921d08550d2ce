#include "fixture.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <boost/json.hpp>

#include "baton/modelfile/model_file.h"

namespace baton::test {
namespace {

namespace json = boost::json;

json::value load_json(std::string_view name) {
  const auto path = std::filesystem::path(BATON_SOURCE_DIR) / "tests/golden/tokenizer" /
                    (std::string(name) + ".json");
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << in.rdbuf();
  return json::parse(text.str());
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

template <typename T>
std::vector<T> numbers(const json::value& array) {
  return json::value_to<std::vector<T>>(array);
}

void add_array(GgufWriter& writer, std::string_view key, const json::value& values) {
  if (values.at(0).is_string()) {
    writer.add_strings(key, json::value_to<std::vector<std::string>>(values));
  } else if (key.ends_with("scores")) {
    writer.add_f32s(key, numbers<float>(values));
  } else {
    writer.add_i32s(key, numbers<std::int32_t>(values));
  }
}

void add_field(GgufWriter& writer, std::string_view key, const json::value& value) {
  if (value.is_array()) {
    add_array(writer, key, value);
  } else if (value.is_bool()) {
    writer.add_bool(key, value.get_bool());
  } else if (value.is_string()) {
    writer.add_string(key, std::string_view(value.get_string()));
  } else {
    writer.add_u32(key, static_cast<std::uint32_t>(value.to_number<std::int64_t>()));
  }
}

tokenizer::TokenizerSpec spec_of_file(const modelfile::ModelFile& file) {
  auto spec = tokenizer::spec_from(file.metadata());
  if (!spec) throw std::runtime_error(spec.error().message());
  return std::move(*spec);
}

tokenizer::Tokenizer make(tokenizer::TokenizerSpec spec) {
  auto made = tokenizer::Tokenizer::make(std::move(spec));
  if (!made) throw std::runtime_error(made.error().message());
  return std::move(*made);
}

}  // namespace

Golden load_golden(std::string_view name) {
  const json::value fixture = load_json(name);
  const auto markers = json::value_to<std::vector<std::string>>(fixture.at("markers"));
  Golden golden;
  golden.texts = json::value_to<std::vector<std::string>>(load_json("texts"));
  const std::string_view stand_ins[] = {"\xEE\x80\x80", "\xEE\x80\x81", "\xEE\x80\x82"};
  for (std::string& text : golden.texts) {
    for (std::size_t i = 0; i < 3; ++i) replace_all(text, stand_ins[i], markers[i]);
  }
  for (const json::value& ids : fixture.at("plain").as_array()) {
    golden.plain.push_back(numbers<TokenId>(ids));
  }
  for (const json::value& ids : fixture.at("parsed").as_array()) {
    golden.parsed.push_back(ids.is_null() ? golden.plain[golden.parsed.size()]
                                          : numbers<TokenId>(ids));
  }
  return golden;
}

std::vector<Decoded> load_decoded(std::string_view name) {
  std::vector<Decoded> cases;
  const json::value fixture = load_json(name);
  for (const json::value& c : fixture.at("decoded").as_array()) {
    cases.push_back({numbers<TokenId>(c.at("ids")), json::value_to<std::string>(c.at("text"))});
  }
  return cases;
}

GgufWriter fixture_fields(std::string_view name, std::string_view pre) {
  GgufWriter writer;
  const json::value fixture = load_json(name);
  for (const auto& field : fixture.at("metadata").as_object()) {
    if (!pre.empty() && field.key() == "tokenizer.ggml.pre") continue;
    add_field(writer, field.key(), field.value());
  }
  if (!pre.empty()) writer.add_string("tokenizer.ggml.pre", pre);
  return writer;
}

tokenizer::TokenizerSpec spec_of(const GgufWriter& fields) {
  auto file = modelfile::ModelFile::parse(fields.bytes());
  if (!file) throw std::runtime_error(file.error().message());
  return spec_of_file(*file);
}

tokenizer::Tokenizer tokenizer_of(const GgufWriter& fields) { return make(spec_of(fields)); }

tokenizer::Tokenizer fixture_tokenizer(std::string_view name, std::string_view pre) {
  return tokenizer_of(fixture_fields(name, pre));
}

std::optional<std::filesystem::path> model_path() {
  if (const char* path = std::getenv("BATON_TEST_MODEL")) return path;
  std::filesystem::path cache;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME")) {
    cache = xdg;
  } else if (const char* home = std::getenv("HOME")) {
    cache = std::filesystem::path(home) / ".cache";
  }
  cache /= "baton/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(cache)) return std::nullopt;
  return cache;
}

std::optional<std::filesystem::path> gemma_path() {
  if (const char* path = std::getenv("BATON_TEST_GEMMA")) return path;
  return std::nullopt;
}

tokenizer::Tokenizer model_tokenizer(const std::filesystem::path& path) {
  auto file = modelfile::ModelFile::open(path);
  if (!file) throw std::runtime_error(file.error().message());
  return make(spec_of_file(*file));
}

std::vector<TokenId> ids_of(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                            bool parse_special) {
  const tokenizer::Segment segment{text, parse_special};
  auto ids = tokenizer.encode({&segment, 1}, {.add_special = false});
  if (!ids) throw std::runtime_error(ids.error().message());
  return std::move(*ids);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      constexpr char digits[] = "0123456789ABCDEF";
      out += std::string("\\x") + digits[byte / 16] + digits[byte % 16];
    }
  }
  return out;
}

}  // namespace baton::test

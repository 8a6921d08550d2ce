#include "support/models/random_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <span>

#include "baton/base/check.h"

#include "support/gguf/gguf_writer.h"

namespace baton::test {
namespace {

using modelfile::GgmlType;
constexpr int block = 32;

void put_u16(std::vector<std::byte>& out, std::uint16_t value) {
  out.push_back(static_cast<std::byte>(value & 0xFF));
  out.push_back(static_cast<std::byte>(value >> 8));
}

/// Truncated to a half; for the sizes of scales, which are normal halves or become 0.
std::uint16_t half_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int exponent = static_cast<int>(bits >> 23 & 0xFF) - 127 + 15;
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  if (exponent <= 0) return sign;
  return static_cast<std::uint16_t>(sign | exponent << 10 | (bits >> 13 & 0x3FF));
}

int clamp_round(float value, int low, int high) {
  return std::clamp(static_cast<int>(std::lround(value)), low, high);
}

void put_nibbles(std::vector<std::byte>& out, std::span<const float> values, float low,
                 float step) {
  const auto level = [&](std::size_t i) {
    return step == 0 ? 0 : clamp_round((values[i] - low) / step, 0, 15);
  };
  for (std::size_t i = 0; i < block / 2; ++i) {
    out.push_back(static_cast<std::byte>(level(i) | level(i + block / 2) << 4));
  }
}

void put_block(std::vector<std::byte>& out, GgmlType type, std::span<const float> values) {
  const auto [low, high] = std::ranges::minmax(values);
  const float largest = std::max(-low, high);
  switch (type) {
    case GgmlType::q8_0:
      put_u16(out, half_bits(largest / 127));
      for (const float value : values) {
        out.push_back(static_cast<std::byte>(clamp_round(value / largest * 127, -127, 127)));
      }
      return;
    case GgmlType::q4_0:
      put_u16(out, half_bits(largest / 8));
      put_nibbles(out, values, -largest, largest / 8);
      return;
    case GgmlType::q4_1:
      put_u16(out, half_bits((high - low) / 15));
      put_u16(out, half_bits(low));
      put_nibbles(out, values, low, (high - low) / 15);
      return;
    default:
      BATON_CHECK(false && "not a type that this writer quantises to");
  }
}

std::vector<std::byte> stored(GgmlType type, std::span<const float> values) {
  std::vector<std::byte> out;
  if (type == GgmlType::f32) {
    const auto bytes = std::as_bytes(values);
    return {bytes.begin(), bytes.end()};
  }
  if (type == GgmlType::bf16 || type == GgmlType::f16) {
    for (const float value : values) {
      const auto high = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
      put_u16(out, type == GgmlType::bf16 ? high : half_bits(value));
    }
    return out;
  }
  for (std::size_t i = 0; i < values.size(); i += block) {
    put_block(out, type, values.subspan(i, block));
  }
  return out;
}

class Maker {
 public:
  explicit Maker(const RandomModel& spec) : spec_(spec), random_(spec.seed) {}

  const GgufWriter& make() {
    fields();
    matrix("token_embd.weight", spec_.width, spec_.vocabulary, 1);
    if (!spec_.tied_output) matrix("output.weight", spec_.width, spec_.vocabulary);
    norm("output_norm.weight", spec_.width);
    for (int layer = 0; layer < spec_.layers; ++layer) {
      add_layer("blk." + std::to_string(layer) + ".");
    }
    return writer_;
  }

 private:
  void number(const std::string& key, int value) {
    writer_.add_u32(spec_.family + "." + key, static_cast<std::uint32_t>(value));
  }

  void fields() {
    writer_.add_string("general.architecture", spec_.family);
    number("context_length", 2048);
    number("block_count", spec_.layers);
    number("embedding_length", spec_.width);
    number("feed_forward_length", spec_.ffn_width);
    number("attention.head_count", spec_.heads);
    number("attention.head_count_kv", spec_.kv_heads);
    number("attention.key_length", spec_.head_dim);
    writer_.add_f32(spec_.family + ".attention.layer_norm_rms_epsilon", 1e-5f);
    if (spec_.text) text_fields();
    if (spec_.window > 0) number("attention.sliding_window", spec_.window);
    if (spec_.family == "gemma3") number("attention.sliding_window_pattern", 2);
  }

  /// Sentencepiece without pieces: <unk>, <s>, </s>, the 256 bytes, and fillers that no text has.
  void text_fields() {
    BATON_CHECK(spec_.vocabulary >= text_vocabulary);
    std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
    std::vector<std::int32_t> types = {2, 3, 3};
    constexpr std::string_view digits = "0123456789ABCDEF";
    for (std::size_t byte = 0; byte < 256; ++byte) {
      tokens.push_back({'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'});
      types.push_back(6);
    }
    while (tokens.size() < static_cast<std::size_t>(spec_.vocabulary)) {
      tokens.push_back("<filler" + std::to_string(tokens.size()) + ">");
      types.push_back(5);
    }
    writer_.add_string("tokenizer.ggml.model", "llama");
    writer_.add_strings("tokenizer.ggml.tokens", tokens);
    writer_.add_i32s("tokenizer.ggml.token_type", types);
    writer_.add_f32s("tokenizer.ggml.scores", std::vector<float>(tokens.size()));
    writer_.add_u32("tokenizer.ggml.bos_token_id", 1);
    writer_.add_u32("tokenizer.ggml.eos_token_id", 2);
    writer_.add_u32("tokenizer.ggml.unknown_token_id", 0);
    writer_.add_string("tokenizer.chat_template",
                       "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}");
  }

  void add_layer(const std::string& prefix) {
    const int q_width = spec_.heads * spec_.head_dim;
    const int kv_width = spec_.kv_heads * spec_.head_dim;
    norm(prefix + "attn_norm.weight", spec_.width);
    matrix(prefix + "attn_q.weight", spec_.width, q_width);
    matrix(prefix + "attn_k.weight", spec_.width, kv_width);
    matrix(prefix + "attn_v.weight", spec_.width, kv_width);
    matrix(prefix + "attn_output.weight", q_width, spec_.width);
    norm(prefix + "ffn_norm.weight", spec_.width);
    matrix(prefix + "ffn_gate.weight", spec_.width, spec_.ffn_width);
    matrix(prefix + "ffn_up.weight", spec_.width, spec_.ffn_width);
    matrix(prefix + "ffn_down.weight", spec_.ffn_width, spec_.width);
    if (spec_.bias) {
      bias(prefix + "attn_q.bias", q_width);
      bias(prefix + "attn_k.bias", kv_width);
      bias(prefix + "attn_v.bias", kv_width);
    }
    if (spec_.family != "gemma3") return;
    norm(prefix + "attn_q_norm.weight", spec_.head_dim);
    norm(prefix + "attn_k_norm.weight", spec_.head_dim);
    norm(prefix + "post_attention_norm.weight", spec_.width);
    norm(prefix + "post_ffw_norm.weight", spec_.width);
  }

  void matrix(const std::string& name, int inputs, int outputs, float deviation = 0) {
    if (deviation == 0) deviation = 2 / std::sqrt(static_cast<float>(inputs));
    std::normal_distribution<float> draw(0, deviation);
    std::vector<float> values(static_cast<std::size_t>(inputs) * static_cast<std::size_t>(outputs));
    for (float& value : values) value = draw(random_);
    writer_.add_tensor(name, spec_.type,
                       {static_cast<std::uint64_t>(inputs), static_cast<std::uint64_t>(outputs)},
                       stored(spec_.type, values));
  }

  void norm(const std::string& name, int elements) {
    std::uniform_real_distribution<float> draw(0.5f, 1.5f);
    vector(name, elements, draw);
  }

  void bias(const std::string& name, int elements) {
    std::normal_distribution<float> draw(0, 0.5f);
    vector(name, elements, draw);
  }

  template <typename Distribution>
  void vector(const std::string& name, int elements, Distribution& draw) {
    std::vector<float> values(static_cast<std::size_t>(elements));
    for (float& value : values) value = draw(random_);
    writer_.add_f32_tensor(name, {values.size()}, values);
  }

  const RandomModel& spec_;
  std::mt19937_64 random_;
  GgufWriter writer_;
};

}  // namespace

modelfile::ModelFile make_random_model(const RandomModel& spec) {
  auto made = modelfile::ModelFile::parse(Maker(spec).make().bytes());
  BATON_CHECK(made.has_value());
  return std::move(*made);
}

void write_random_model(const RandomModel& spec, const std::filesystem::path& path) {
  Maker(spec).make().write(path);
}

std::vector<TokenId> random_tokens(int count, int vocabulary, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<TokenId> draw(0, vocabulary - 1);
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  for (TokenId& token : tokens) token = draw(random);
  return tokens;
}

}  // namespace baton::test

#include "markers.h"

#include <algorithm>
#include <array>

namespace baton::tokenizer {
namespace {

// Not </s>, <s> and <eos>: where they are markers a file's ids name them, and to Gemma the first
// two are tags of HTML.
constexpr std::array<std::string_view, 10> known_ends = {
    "<|im_end|>",          // ChatML: SmolLM, Qwen, Yi
    "<|eot_id|>",          // Llama 3
    "<|eom_id|>",          // Llama 3, message before a tool's answer
    "<|end_of_text|>",     // Llama 3 base, Granite
    "<|endoftext|>",       // GPT-2, Phi, SmolLM
    "<|end|>",             // Phi 3
    "<|end_of_turn|>",     // OpenChat
    "<end_of_turn>",       // Gemma
    "<end_of_utterance>",  // SmolVLM
    "<EOT>",               // CodeLlama and others
};

constexpr std::array<std::string_view, 3> known_openings = {"<start_of_turn>", "[INST]", "[/INST]"};

}  // namespace

bool is_known_end(std::string_view spelling) {
  return std::find(known_ends.begin(), known_ends.end(), spelling) != known_ends.end();
}

bool is_chat_marker(std::string_view spelling) {
  if (is_known_end(spelling)) return true;
  if (spelling.size() > 4 && spelling.starts_with("<|") && spelling.ends_with("|>")) return true;
  return std::find(known_openings.begin(), known_openings.end(), spelling) != known_openings.end();
}

}  // namespace baton::tokenizer

#include "prompt.h"

#include <cctype>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>

#include <boost/json.hpp>
#include <fmt/format.h>

namespace baton::cli {
namespace json = boost::json;

namespace {

Error invalid(std::string message) { return Error(Reason::invalid_request, std::move(message)); }

Result<std::variant<std::string, std::vector<TokenId>, std::vector<Turn>>> content_of(
    const json::value& value, bool chat) {
  if (value.is_string()) {
    std::string text(value.as_string());
    if (chat) return std::vector<Turn>{{"user", std::move(text)}};
    return text;
  }
  if (!value.is_array()) return invalid("prompt must be text or a list of token ids");
  std::vector<TokenId> ids;
  for (const json::value& each : value.as_array()) {
    boost::system::error_code error;
    const auto id = each.is_number() ? each.to_number<std::int64_t>(error) : -1;
    if (error || id < 0 || id > std::numeric_limits<TokenId>::max()) {
      return invalid("prompt must be text or a list of token ids");
    }
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

Result<void> set_option(Sampling& sampling, std::string_view key, const json::value& value) {
  boost::system::error_code error;
  if (key == "max_tokens" && value.is_number()) {
    sampling.max_tokens = value.to_number<std::int64_t>(error);
    if (sampling.max_tokens < 1) return invalid("max_tokens must be at least 1");
  } else if (key == "temperature" && value.is_number()) {
    sampling.temperature = value.to_number<double>();
  } else if (key == "seed" && value.is_number()) {
    sampling.seed = value.to_number<std::int64_t>(error);
  } else if (key == "ignore_eos" && value.is_bool()) {
    sampling.ignore_eos = value.as_bool();
  } else {
    return invalid(fmt::format("\"{}\" is not known here or has the wrong type", key));
  }
  if (error) return invalid(fmt::format("\"{}\" must be a whole number", key));
  return ok();
}

}  // namespace

std::string answer_json(const Answer& answer) {
  json::object out{{"text", answer.text},
                   {"token_ids", json::value_from(answer.token_ids)},
                   {"logits_digests", json::value_from(answer.logits_digests)},
                   {"finish_reason", answer.finish_reason},
                   {"prompt_tokens", answer.prompt_tokens},
                   {"completion_tokens", answer.token_ids.size()}};
  for (const auto& [key, value] : answer.facts) out[key] = value;
  return json::serialize(out);
}

std::string error_json(const Error& error) {
  return json::serialize(json::object{
      {"error",
       {{"message", error.message()}, {"code", std::string(info(error.reason()).openai_code)}}}});
}

Result<std::vector<TokenId>> parse_ids(std::string_view text) {
  std::vector<TokenId> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (std::isspace(static_cast<unsigned char>(*at)) || *at == ',' || *at == '[' || *at == ']') {
      ++at;
      continue;
    }
    TokenId id = -1;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0) {
      return invalid(fmt::format("byte {}: not a token id", at - text.data()));
    }
    ids.push_back(id);
    at = next;
  }
  if (ids.empty()) return invalid("there are no token ids");
  return ids;
}

Result<Prompt> parse_batch_line(std::string_view line, const Sampling& defaults, bool chat) {
  boost::system::error_code error;
  const json::value value = json::parse(line, error);
  if (error) return invalid("not JSON: " + error.message());
  if (!value.is_object()) return invalid("not a JSON object");
  Prompt out;
  out.sampling = defaults;
  bool has_prompt = false;
  for (const auto& [key, each] : value.as_object()) {
    if (key == "prompt") {
      BATON_ASSIGN(out.content, content_of(each, chat));
      has_prompt = true;
    } else {
      BATON_TRY(set_option(out.sampling, key, each));
    }
  }
  if (!has_prompt) return invalid("\"prompt\" is missing");
  return out;
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return invalid("cannot read " + path);
  return text.str();
}

Result<std::vector<Prompt>> read_batch(const std::string& path, const Sampling& defaults,
                                       bool chat) {
  BATON_ASSIGN(const std::string text, read_file(path));
  std::vector<Prompt> out;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Result<Prompt> prompt = parse_batch_line(line, defaults, chat);
    if (!prompt) return invalid(fmt::format("{}:{}: {}", path, number, prompt.error().message()));
    out.push_back(std::move(*prompt));
  }
  if (out.empty()) return invalid(path + ": there is no prompt in it");
  return out;
}

}  // namespace baton::cli

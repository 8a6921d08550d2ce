#include "baton/router/api/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::router {
namespace {

std::string chat(const std::string& more) {
  return R"({"messages": [{"role": "user", "content": "hi"}])" + (more.empty() ? "" : ", " + more) +
         "}";
}

ApiRequest accepted(ApiKind kind, const std::string& body) {
  auto request = parse_request(kind, body);
  if (!request) {
    ADD_FAILURE() << body << ": " << request.error().error.message();
    return {};
  }
  return std::move(*request);
}

TEST(Request, TheDefaultsAreOpenAIs) {
  const ApiRequest request = accepted(ApiKind::chat, chat(""));
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.max_tokens.has_value());
  EXPECT_FALSE(request.seed.has_value());
  EXPECT_EQ(request.sampling, [] {
    protocol::Sampling defaults;
    defaults.temperature = 1;
    return defaults;
  }());
  EXPECT_TRUE(request.chat.add_generation_prompt);
}

TEST(Request, NullMeansAbsent) {
  const ApiRequest request =
      accepted(ApiKind::chat,
               chat(R"("temperature": null, "stop": null, "n": null, "tools": null, "seed": null,
              "stream_options": null, "max_tokens": null, "logit_bias": null, "whatever": null)"));
  EXPECT_EQ(request.sampling.temperature, 1);
}

TEST(Request, EverySamplingFieldIsRead) {
  const ApiRequest request =
      accepted(ApiKind::chat,
               chat(R"("model": "m", "temperature": 0.5, "top_p": 0.25, "min_p": 0.125, "top_k": 7,
              "repetition_penalty": 1.5, "presence_penalty": -1, "frequency_penalty": 2,
              "ignore_eos": true, "min_tokens": 2, "seed": -3, "stop_token_ids": [4, 5],
              "logit_bias": {"6": -100}, "logprobs": true, "top_logprobs": 3, "stop": ["a", "b"],
              "max_completion_tokens": 9, "stream": true,
              "stream_options": {"include_usage": true},
              "baton": {"trace": true, "logits_digest": true},
              "chat_template_kwargs": {"enable_thinking": false}, "user": "u", "metadata": {})"));
  const protocol::Sampling& sampling = request.sampling;
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_p, 0.25F);
  EXPECT_EQ(sampling.min_p, 0.125F);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(sampling.presence_penalty, -1);
  EXPECT_EQ(sampling.frequency_penalty, 2);
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_EQ(sampling.min_tokens, 2);
  EXPECT_EQ(request.seed, static_cast<std::uint64_t>(-3));
  EXPECT_THAT(sampling.stop_ids, testing::ElementsAre(4, 5));
  EXPECT_THAT(sampling.logit_bias, testing::ElementsAre(testing::Pair(6, -100.0F)));
  EXPECT_EQ(sampling.logprobs, 3);
  EXPECT_THAT(request.stop, testing::ElementsAre("a", "b"));
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_TRUE(request.trace);
  EXPECT_TRUE(sampling.logits_digest);
  EXPECT_EQ(request.chat.enable_thinking, false);
}

struct Refused {
  const char* fields;
  const char* param;
  Reason reason = Reason::invalid_request;
};

class ChatRefusal : public testing::TestWithParam<Refused> {};

TEST_P(ChatRefusal, NamesTheField) {
  const auto request = parse_request(ApiKind::chat, chat(GetParam().fields));
  ASSERT_FALSE(request.has_value()) << GetParam().fields;
  EXPECT_EQ(request.error().param, GetParam().param);
  EXPECT_EQ(request.error().error.reason(), GetParam().reason);
  EXPECT_EQ(info(request.error().error.reason()).http_status, 400);
}

constexpr Reason unsupported = Reason::unsupported_parameter;

INSTANTIATE_TEST_SUITE_P(
    Fields, ChatRefusal,
    testing::Values(
        Refused{R"("max_tokens": 0)", "max_tokens"},  // API-21
        Refused{R"("max_tokens": -1)", "max_tokens"}, Refused{R"("max_tokens": 1.5)", "max_tokens"},
        Refused{R"("max_tokens": "5")", "max_tokens"},
        Refused{R"("max_tokens": 9223372036854775808)", "max_tokens"},
        Refused{R"("max_completion_tokens": 0)", "max_completion_tokens"},
        Refused{R"("temperature": -0.1)", "temperature"},
        Refused{R"("temperature": 1e999)", "temperature"},
        Refused{R"("temperature": "1")", "temperature"}, Refused{R"("top_p": 0)", "top_p"},
        Refused{R"("top_p": 1.01)", "top_p"}, Refused{R"("min_p": -1)", "min_p"},
        Refused{R"("top_k": -2)", "top_k"}, Refused{R"("top_k": 2147483648)", "top_k"},
        Refused{R"("repetition_penalty": 0)", "repetition_penalty"},
        Refused{R"("presence_penalty": 2.5)", "presence_penalty"},
        Refused{R"("frequency_penalty": -2.5)", "frequency_penalty"},
        Refused{R"("frequency_penalty": 2.5)", "frequency_penalty"},
        Refused{R"("min_tokens": -1)", "min_tokens"}, Refused{R"("seed": 1.5)", "seed"},
        Refused{R"("seed": 18446744073709551615)", "seed"}, Refused{R"("stream": 1)", "stream"},
        Refused{R"("stop": "")", "stop"}, Refused{R"("stop": [1])", "stop"},
        Refused{R"("stop": ["a", "b", "c", "d", "e"])", "stop"},
        Refused{R"("stop_token_ids": [-1])", "stop_token_ids"},
        Refused{R"("stop_token_ids": 4)", "stop_token_ids"},
        Refused{R"("stop_token_ids": [2147483648])", "stop_token_ids"},
        Refused{R"("logit_bias": {"x": 1})", "logit_bias"},
        Refused{R"("logit_bias": {"-1": 1})", "logit_bias"},
        Refused{R"("logit_bias": {"1": 101})", "logit_bias"},
        Refused{R"("logit_bias": {"1": -101})", "logit_bias"},
        Refused{R"("logit_bias": {"1x": 1})", "logit_bias"},
        Refused{R"("logit_bias": {"1": "1"})", "logit_bias"},
        Refused{R"("logit_bias": [1])", "logit_bias"},
        Refused{R"("top_logprobs": 3)", "top_logprobs"},
        Refused{R"("logprobs": true, "top_logprobs": 21)", "top_logprobs"},
        Refused{R"("logprobs": 1)", "logprobs"},
        Refused{R"("stream_options": {"include_usage": true})", "stream_options"},
        Refused{R"("stream": true, "stream_options": {"x": 1})", "stream_options", unsupported},
        Refused{R"("n": 2)", "n", unsupported}, Refused{R"("best_of": 2)", "best_of", unsupported},
        Refused{R"("echo": true)", "echo", unsupported},
        Refused{R"("suffix": "x")", "suffix", unsupported},
        Refused{R"("tools": [{}])", "tools", unsupported},
        Refused{R"("tool_choice": "auto")", "tool_choice", unsupported},
        Refused{R"("response_format": {"type": "json_object"})", "response_format", unsupported},
        Refused{R"("modalities": ["audio"])", "modalities", unsupported},
        Refused{R"("store": true)", "store", unsupported},
        Refused{R"("service_tier": "flex")", "service_tier", unsupported},
        Refused{R"("skip_special_tokens": false)", "skip_special_tokens", unsupported},
        Refused{R"("spaces_between_special_tokens": false)", "spaces_between_special_tokens",
                unsupported},
        Refused{R"("parallel_tool_calls": false)", "parallel_tool_calls", unsupported},
        Refused{R"("stream": true, "stream_options": {"continuous_usage_stats": true})",
                "stream_options", unsupported},
        Refused{R"("use_beam_search": true)", "use_beam_search", unsupported},
        Refused{R"("prompt": "x")", "prompt", unsupported},
        Refused{R"("slot": 3)", "slot", unsupported},
        Refused{R"("kv_transfer_params": {"host": "h"})", "kv_transfer_params", unsupported},
        Refused{R"("baton": {"node": "d0"})", "baton", unsupported},
        Refused{R"("baton": 1)", "baton"},
        Refused{R"("chat_template_kwargs": {"x": 1})", "chat_template_kwargs", unsupported},
        Refused{R"("add_generation_prompt": 0)", "add_generation_prompt"}));

TEST(Request, TheFirstOfSeveralErrorsIsTold) {
  const auto request = parse_request(ApiKind::chat, chat(R"("top_p": 2, "temperature": -1)"));
  EXPECT_EQ(request.error().param, "temperature");  // the order of reading, not that of the text
  EXPECT_NE(request.error().error.message().find("temperature"), std::string::npos);
}

TEST(Request, WhatChangesNothingIsTaken) {
  accepted(ApiKind::chat, chat(R"("n": 1, "best_of": 1, "store": false, "service_tier": "auto",
      "skip_special_tokens": true, "spaces_between_special_tokens": true, "tools": [],
      "parallel_tool_calls": true, "tool_choice": "none", "response_format": {"type": "text"},
      "modalities": ["text"], "use_beam_search": false, "echo": false)"));
  accepted(ApiKind::chat, chat(R"("stream": true,
      "stream_options": {"include_usage": false, "continuous_usage_stats": false})"));
}

TEST(Request, OfTwoLimitsOfAChatTheNewerNameCounts) {
  EXPECT_EQ(accepted(ApiKind::chat, chat(R"("max_tokens": 5)")).max_tokens, 5);
  EXPECT_EQ(
      accepted(ApiKind::chat, chat(R"("max_tokens": 5, "max_completion_tokens": 9)")).max_tokens,
      9);
}

TEST(Request, TheNameOfAFieldInsideAnotherIsToldInFull) {
  const auto request = parse_request(
      ApiKind::chat, chat(R"("stream": true, "stream_options": {"include_usage": 1})"));
  EXPECT_EQ(request.error().param, "stream_options");
  EXPECT_NE(request.error().error.message().find("stream_options.include_usage"),
            std::string::npos);
  const auto message = parse_request(
      ApiKind::chat, R"({"messages": [{"role": "user", "content": "a", "audio": {}}]})");
  EXPECT_EQ(message.error().param, "messages");
  EXPECT_NE(message.error().error.message().find("messages[0].audio"), std::string::npos);
}

TEST(Request, RangesIncludeTheirEnds) {  // R19
  accepted(ApiKind::chat, chat(R"("temperature": 0, "top_p": 1, "min_p": 1, "top_k": -1)"));
  accepted(ApiKind::chat, chat(R"("presence_penalty": -2, "frequency_penalty": 2)"));
  accepted(ApiKind::chat, chat(R"("max_tokens": 1, "seed": -9223372036854775808)"));
  accepted(ApiKind::chat, chat(R"("logprobs": true, "top_logprobs": 20)"));
  EXPECT_EQ(accepted(ApiKind::chat, chat(R"("top_k": -1)")).sampling.top_k, 0);
}

TEST(Request, ListsAreBounded) {  // R7
  std::string biases;
  std::string stop_ids;
  std::string messages;
  for (int i = 0; i <= 300; ++i) biases += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
  for (int i = 0; i <= 64; ++i) stop_ids += (i > 0 ? "," : "") + std::to_string(i);
  for (int i = 0; i <= 4096; ++i) {
    messages += std::string(i > 0 ? "," : "") + R"({"role":"user","content":"a"})";
  }
  EXPECT_FALSE(parse_request(ApiKind::chat, chat(R"("logit_bias": {)" + biases + "}")));
  EXPECT_FALSE(parse_request(ApiKind::chat, chat(R"("stop_token_ids": [)" + stop_ids + "]")));
  EXPECT_FALSE(parse_request(ApiKind::chat, R"({"messages": [)" + messages + "]}"));
  EXPECT_FALSE(parse_request(ApiKind::chat, chat(R"("stop": ")" + std::string(65, 'x') + "\"")));
  EXPECT_TRUE(parse_request(ApiKind::chat, chat(R"("stop": ")" + std::string(64, 'x') + "\"")));
  EXPECT_TRUE(parse_request(ApiKind::chat, chat(R"("stop": ["a", "b", "c", "d"])")));
}

TEST(Request, APromptOfIdsIsBounded) {  // R7
  std::string ids = "1";
  for (int i = 1; i < 200'000; ++i) ids += ",1";
  EXPECT_TRUE(parse_request(ApiKind::completion, R"({"prompt": [)" + ids + "]}"));
  EXPECT_FALSE(parse_request(ApiKind::completion, R"({"prompt": [)" + ids + ",1]}"));
  EXPECT_TRUE(parse_detokenize(R"({"tokens": [)" + ids + "]}"));
  EXPECT_FALSE(parse_detokenize(R"({"tokens": [)" + ids + ",1]}"));
}

TEST(Request, DeepJsonIsRefused) {
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  EXPECT_FALSE(parse_request(ApiKind::chat, chat("\"x\": " + deep)));
  // In a field that is not looked into, so that the depth alone decides.
  const auto nested = [](int depth) {
    const auto brackets = static_cast<std::size_t>(depth);
    return chat(R"("metadata": )" + std::string(brackets, '[') + std::string(brackets, ']'));
  };
  EXPECT_TRUE(parse_request(ApiKind::chat, nested(31)));
  EXPECT_FALSE(parse_request(ApiKind::chat, nested(32)));
}

TEST(Request, WhatIsNoObjectIsRefused) {
  for (const char* body : {"", "[]", "null", "{", R"({"messages": 1})", R"({"messages": []})",
                           R"({"messages": [1]})", "{} x"}) {
    EXPECT_FALSE(parse_request(ApiKind::chat, body)) << body;
  }
}

// ---- messages ----

bool message_is_taken(const std::string& message) {
  return parse_request(ApiKind::chat, R"({"messages": [)" + message + "]}").has_value();
}

TEST(Request, TextPartsAreJoined) {
  const ApiRequest request = accepted(ApiKind::chat, R"({"messages": [{"role": "user", "content":
      [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})");
  EXPECT_EQ(request.chat.messages[0].content, "ab");
}

TEST(Request, PartsThatAreNotTextAreRefused) {  // R21
  for (const char* part :
       {R"({"type": "image_url", "image_url": {"url": "http://x"}})",
        R"({"type": "text", "text": "a", "image_url": {"url": "http://x"}})",
        R"({"type": "input_audio", "input_audio": {}})", R"({"type": "file", "file": {}})",
        R"({"type": "text"})", R"({"text": "a"})", R"("a")", "1"}) {
    EXPECT_FALSE(message_is_taken(R"({"role": "user", "content": [)" + std::string(part) + "]}"))
        << part;
  }
}

TEST(Request, MessagesHaveAKnownRoleAndKnownFields) {
  EXPECT_TRUE(message_is_taken(R"({"role": "system", "content": "a", "name": "n"})"));
  EXPECT_TRUE(message_is_taken(R"({"role": "tool", "content": "a", "tool_call_id": "1"})"));
  EXPECT_TRUE(message_is_taken(R"({"role": "assistant", "content": null, "tool_calls": []})"));
  EXPECT_FALSE(message_is_taken(R"({"role": "root", "content": "a"})"));
  EXPECT_FALSE(message_is_taken(R"({"content": "a"})"));
  EXPECT_FALSE(message_is_taken(R"({"role": "user", "content": 1})"));
  EXPECT_FALSE(message_is_taken(R"({"role": "user", "content": "a", "url": "x"})"));
  EXPECT_FALSE(message_is_taken(R"({"role": "user", "content": "a", "audio": {}})"));
}

TEST(Request, EveryFieldOfAMessageReachesTheTemplate) {
  const ApiRequest request = accepted(ApiKind::chat, R"({"add_generation_prompt": false,
      "messages": [{"role": "assistant", "content": "a", "name": "n", "reasoning_content": "r",
                    "tool_calls": [{"id": "c"}], "refusal": null},
                   {"role": "tool", "content": "b", "tool_call_id": "c"}]})");
  const auto& messages = request.chat.messages;
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].role, "assistant");
  EXPECT_EQ(messages[0].name, "n");
  EXPECT_EQ(messages[0].reasoning_content, "r");
  ASSERT_TRUE(messages[0].tool_calls.has_value());
  EXPECT_EQ(messages[0].tool_calls->as_array().size(), 1U);
  EXPECT_EQ(messages[1].tool_call_id, "c");
  EXPECT_FALSE(request.chat.add_generation_prompt);
}

TEST(Request, ARefusalInAMessageIsRefused) {
  EXPECT_FALSE(message_is_taken(R"({"role": "assistant", "content": "a", "refusal": "no"})"));
  EXPECT_FALSE(message_is_taken(R"({"role": "assistant", "content": "a", "function_call": {}})"));
}

TEST(Request, AnErrorNeverCutsACharacter) {
  std::string name;
  for (int i = 0; i < 40; ++i) name += "\xE7\x95\x8C";
  const auto request = parse_request(ApiKind::chat, chat("\"" + name + "\": 1"));
  ASSERT_FALSE(request.has_value());
  EXPECT_EQ(request.error().param.size(), 63U);  // 21 whole characters of at most 64 bytes
  EXPECT_EQ(clipped("abc", 3), "abc");
  EXPECT_EQ(clipped("abc", 2), "ab");
}

// ---- completions, tokenize ----

TEST(Request, APromptIsTextOrIds) {
  EXPECT_EQ(std::get<std::string>(accepted(ApiKind::completion, R"({"prompt": "a"})").prompt), "a");
  EXPECT_EQ(std::get<std::string>(accepted(ApiKind::completion, R"({"prompt": ["a"]})").prompt),
            "a");
  EXPECT_THAT(
      std::get<std::vector<TokenId>>(accepted(ApiKind::completion, R"({"prompt": [1, 2]})").prompt),
      testing::ElementsAre(1, 2));
  EXPECT_THAT(
      std::get<std::vector<TokenId>>(accepted(ApiKind::completion, R"({"prompt": [[3]]})").prompt),
      testing::ElementsAre(3));
  for (const char* body :
       {"{}", R"({"prompt": []})", R"({"prompt": [[]]})", R"({"prompt": ["a", "b"]})",
        R"({"prompt": [1, "a"]})", R"({"prompt": [-1]})", R"({"prompt": 1})"}) {
    EXPECT_FALSE(parse_request(ApiKind::completion, body)) << body;
  }
}

TEST(Request, ACompletionsLogprobsIsANumber) {
  EXPECT_EQ(accepted(ApiKind::completion, R"({"prompt": "a", "logprobs": 0})").sampling.logprobs,
            0);
  EXPECT_FALSE(parse_request(ApiKind::completion, R"({"prompt": "a", "logprobs": true})"));
  EXPECT_FALSE(
      parse_request(ApiKind::completion, R"({"prompt": "a", "max_completion_tokens": 3})"));
}

TEST(Request, TokenizeTakesTextOrMessages) {
  EXPECT_EQ(parse_tokenize(R"({"prompt": "a"})")->prompt, "a");
  EXPECT_EQ(
      parse_tokenize(R"({"messages": [{"role": "user", "content": "a"}]})")->chat.messages.size(),
      1U);
  EXPECT_TRUE(parse_tokenize(R"({"prompt": "a"})")->add_special_tokens);
  EXPECT_FALSE(
      parse_tokenize(R"({"prompt": "a", "add_special_tokens": false})")->add_special_tokens);
  EXPECT_FALSE(parse_tokenize(R"({"prompt": "a", "return_token_strs": true})"));
  EXPECT_FALSE(parse_tokenize("{}"));
  EXPECT_FALSE(parse_tokenize(R"({"prompt": "a", "x": 1})"));
}

TEST(Request, DetokenizeNeedsItsTokens) {
  EXPECT_THAT(parse_detokenize(R"({"tokens": [1]})")->tokens, testing::ElementsAre(1));
  EXPECT_EQ(parse_detokenize("{}").error().param, "tokens");
  EXPECT_FALSE(parse_detokenize(R"({"tokens": [1], "x": 1})"));
}

}  // namespace
}  // namespace baton::router

#include "baton/router/api/response.h"

#include <boost/json/parse.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::router {
namespace {

namespace json = boost::json;
using protocol::FinishReason;

AnswerHead head(ApiKind kind, bool usage = false) {
  return {kind, "id-1", "m", 1700000000, "fp_1", usage};
}

const json::value& choice(const json::value& body) { return body.at("choices").at(0); }

/// Ids 1 and 2 are "a" and the first two bytes of a character of three.
tokenizer::Tokenizer tokens() {
  tokenizer::TokenizerSpec spec;
  spec.algorithm = tokenizer::Algorithm::sentencepiece;
  spec.pre_tokenizer = tokenizer::PreTokenizer::none;
  spec.unknown = 0;
  spec.tokens = {"<unk>", "a", "\xE7\x95\x8C"};
  spec.scores = {0, -1, -1};
  spec.types = {tokenizer::TokenType::unknown, tokenizer::TokenType::normal,
                tokenizer::TokenType::normal};
  auto made = tokenizer::Tokenizer::make(spec);
  EXPECT_TRUE(made.has_value());
  return *made;
}

std::vector<Delivered> delivered() {
  Delivered first{1, std::nullopt, protocol::Tokens::Logprob{-0.5F, {{2, -0.25F}}}};
  Delivered second{2, std::nullopt, protocol::Tokens::Logprob{-1.5F, {}}};
  return {second, first};
}

TEST(Response, AChatChunkHasADeltaAndNoFinishReason) {  // API-13
  const json::value first = json::parse(chunk(head(ApiKind::chat), "hi", true, nullptr));
  EXPECT_EQ(first.at("object"), "chat.completion.chunk");
  EXPECT_EQ(choice(first).at("delta").at("role"), "assistant");
  EXPECT_EQ(choice(first).at("delta").at("content"), "hi");
  EXPECT_TRUE(choice(first).at("finish_reason").is_null());
  EXPECT_FALSE(first.as_object().contains("usage"));
  EXPECT_EQ(first.at("id"), "id-1");
  EXPECT_EQ(first.at("model"), "m");
  EXPECT_EQ(first.at("created"), 1700000000);
  EXPECT_EQ(first.at("system_fingerprint"), "fp_1");
  // The first chunk has content even when there is no text yet: clients add it up.
  const json::value bare = json::parse(chunk(head(ApiKind::chat), "", true, nullptr));
  EXPECT_EQ(choice(bare).at("delta").at("content"), "");
  const json::value next = json::parse(chunk(head(ApiKind::chat), "x", false, nullptr));
  EXPECT_FALSE(choice(next).at("delta").as_object().contains("role"));
}

TEST(Response, ACompletionChunkHasText) {
  const json::value body = json::parse(chunk(head(ApiKind::completion), "hi", false, nullptr));
  EXPECT_EQ(body.at("object"), "text_completion");
  EXPECT_EQ(choice(body).at("text"), "hi");
  EXPECT_TRUE(choice(body).at("finish_reason").is_null());
}

TEST(Response, UsageComesInAChunkOfItsOwnWithoutChoices) {  // API-15
  const AnswerHead with = head(ApiKind::chat, true);
  EXPECT_TRUE(json::parse(chunk(with, "x", false, nullptr)).at("usage").is_null());
  const json::value finish =
      json::parse(finish_chunk(with, "", FinishReason::length, nullptr, std::nullopt));
  EXPECT_EQ(choice(finish).at("finish_reason"), "length");
  EXPECT_TRUE(choice(finish).at("delta").as_object().empty());
  EXPECT_TRUE(finish.at("usage").is_null());
  const json::value usage = json::parse(usage_chunk(with, {3, 4, 2}));
  EXPECT_TRUE(usage.at("choices").as_array().empty());
  EXPECT_EQ(usage.at("usage").at("prompt_tokens"), 3);
  EXPECT_EQ(usage.at("usage").at("completion_tokens"), 4);
  EXPECT_EQ(usage.at("usage").at("total_tokens"), 7);
  EXPECT_EQ(usage.at("usage").at("prompt_tokens_details").at("cached_tokens"), 2);
}

TEST(Response, AWholeAnswerHasContentFinishAndUsage) {  // API-17
  const json::value chat = json::parse(whole_body(head(ApiKind::chat), "text", FinishReason::stop,
                                                  nullptr, {3, 4, 0}, std::nullopt));
  EXPECT_EQ(chat.at("object"), "chat.completion");
  EXPECT_EQ(choice(chat).at("message").at("content"), "text");
  EXPECT_EQ(choice(chat).at("finish_reason"), "stop");
  EXPECT_EQ(chat.at("usage").at("completion_tokens"), 4);
  const json::value completion = json::parse(whole_body(
      head(ApiKind::completion), "", FinishReason::length, nullptr, {3, 0, 0}, json::object{}));
  EXPECT_EQ(choice(completion).at("text"), "");
  EXPECT_TRUE(completion.as_object().contains("baton"));
}

TEST(Response, TheLastChunkCarriesTheTrace) {
  const std::string with = finish_chunk(head(ApiKind::chat), "", FinishReason::stop, nullptr,
                                        json::object{{"attempts", 1}});
  EXPECT_EQ(json::parse(with).at("baton").at("attempts"), 1);
  const std::string without =
      finish_chunk(head(ApiKind::chat), "", FinishReason::stop, nullptr, std::nullopt);
  EXPECT_FALSE(json::parse(without).as_object().contains("baton"));
}

TEST(Response, WhatEndedOtherThanByAStopIsLength) {
  EXPECT_STREQ(finish_word(FinishReason::stop), "stop");
  EXPECT_STREQ(finish_word(FinishReason::length), "length");
  EXPECT_STREQ(finish_word(FinishReason::cancelled), "length");
}

TEST(Response, AnErrorHasTypeParamAndCode) {
  const json::value body =
      json::parse(error_body(Error(Reason::unsupported_parameter, "no"), "tools")).at("error");
  EXPECT_EQ(body.at("message"), "no");
  EXPECT_EQ(body.at("type"), "invalid_request_error");
  EXPECT_EQ(body.at("param"), "tools");
  EXPECT_EQ(body.at("code"), "unsupported_parameter");
  const json::value server = json::parse(error_body(Error(Reason::no_worker, "no"))).at("error");
  EXPECT_EQ(server.at("type"), "server_error");
  EXPECT_EQ(json::parse(error_body(Error(Reason::internal, "no"))).at("error").at("type"),
            "server_error");
  EXPECT_TRUE(server.at("param").is_null());
}

TEST(Response, ChatLogprobsNameEachTokensBytes) {  // API-32
  const json::value out = logprobs_json(ApiKind::chat, delivered(), tokens(), 0);
  const json::array& content = out.at("content").as_array();
  ASSERT_EQ(content.size(), 2U);
  EXPECT_EQ(content[0].at("token"), "\xE7\x95\x8C");
  EXPECT_EQ(content[0].at("bytes").as_array().size(), 3U);
  EXPECT_EQ(content[1].at("top_logprobs").at(0).at("logprob"), -0.25);
}

TEST(Response, CompletionLogprobsHaveTheLegacyShapeAndCountCharacters) {  // API-27, API-29
  const json::value out = logprobs_json(ApiKind::completion, delivered(), tokens(), 10);
  EXPECT_EQ(out.at("text_offset").at(0), 10);
  EXPECT_EQ(out.at("text_offset").at(1), 11);  // a character, not three bytes
  EXPECT_EQ(out.at("tokens").at(1), "a");
  EXPECT_EQ(out.at("token_logprobs").at(1), -0.5);
  EXPECT_EQ(out.at("top_logprobs").at(1).at("a"), out.at("token_logprobs").at(1));
}

TEST(Response, WithoutLogprobsTheFieldIsNull) {
  EXPECT_TRUE(logprobs_json(ApiKind::chat, {}, tokens(), 0).is_null());
  EXPECT_TRUE(logprobs_json(ApiKind::chat, {Delivered{1, {}, {}}}, tokens(), 0).is_null());
}

TEST(Response, ATraceTellsWhatCrossedAndWhatWasComputed) {
  RequestFacts facts;
  facts.prefill_node = NodeId("p");
  facts.decode_node = NodeId("d");
  facts.attempts = 2;
  facts.handoff.transport = "shm";
  facts.handoff.units = 60;
  facts.handoff.bytes = 7000;
  facts.handoff.held_units = 40;
  facts.handoff.total = std::chrono::milliseconds(9);
  facts.handoff.first_unit_sent = std::chrono::milliseconds(3);
  facts.handoff.last_layer_computed = std::chrono::milliseconds(8);
  facts.decode = {1, 2, 20, 21, 4};
  std::vector<Delivered> tokens = delivered();
  tokens[0].digest = Digest128{1, 2};
  const json::object trace = trace_json(facts, {}, tokens);
  EXPECT_EQ(trace.at("handoff"), (json::value{{"transport", "shm"},
                                              {"units", 60},
                                              {"bytes", 7000},
                                              {"held_units", 40},
                                              {"total_ms", 9.0},
                                              {"first_unit_sent_ms", 3.0},
                                              {"last_layer_computed_ms", 8.0}}));
  EXPECT_EQ(trace.at("decode"), (json::value{{"node", "d"},
                                             {"prompt_rows", 1},
                                             {"first_step_rows", 2},
                                             {"cache_before", 20},
                                             {"cache_after", 21},
                                             {"recomputed_rows", 4}}));
  EXPECT_EQ(trace.at("prefill").at("node"), "p");
  EXPECT_EQ(trace.at("attempts"), 2);
  EXPECT_EQ(trace.at("token_ids"), (json::value{2, 1}));
  EXPECT_EQ(trace.at("logits_digests"), json::array{(Digest128{1, 2}.to_string())});
}

TEST(Response, ATraceTellsEveryPartOfTheTime) {  // P8
  RequestTimes times;
  times.queue = std::chrono::milliseconds(3);
  times.handoff_travel = std::chrono::milliseconds(2);
  times.unaccounted = std::chrono::milliseconds(8);
  times.total = std::chrono::milliseconds(100);
  const json::object trace = trace_json({}, times, delivered());
  const json::value& out = trace.at("times_ms");
  EXPECT_DOUBLE_EQ(out.at("queue").as_double(), 3);
  EXPECT_DOUBLE_EQ(out.at("handoff_travel").as_double(), 2);
  EXPECT_DOUBLE_EQ(out.at("unaccounted").as_double(), 8);
  EXPECT_DOUBLE_EQ(out.at("total").as_double(), 100);
  EXPECT_EQ(trace.at("token_ids").as_array().size(), 2U);
}

}  // namespace
}  // namespace baton::router

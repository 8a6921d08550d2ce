#include "options.h"

#include <cstdlib>

#include <gmock/gmock.h>

namespace baton::cli {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

template <typename Options>
Options parsed(std::vector<std::string> arguments) {
  const ParsedCommand command = parse_command(std::move(arguments));
  if (const auto* stop = std::get_if<Stop>(&command)) {
    ADD_FAILURE() << stop->text;
    return {};
  }
  return std::get<Options>(std::get<Command>(command));
}

Stop refused(std::vector<std::string> arguments) {
  const ParsedCommand command = parse_command(std::move(arguments));
  if (const auto* stop = std::get_if<Stop>(&command)) return *stop;
  return {-1, "accepted"};
}

TEST(Options, UpHandsNodeOptionsOnAsTheyWereGiven) {
  const auto up = parsed<UpOptions>(
      {"up", "--model", "m.gguf", "--threads", "1", "--transports=ucx,shm", "--once", "hello"});
  EXPECT_EQ(up.model, "m.gguf");
  EXPECT_EQ(up.once, "hello");
  EXPECT_THAT(up.node_flags,
              UnorderedElementsAre(Pair("--threads", "1"), Pair("--transports", "ucx,shm")));
}

TEST(Options, BenchEngineTakesCellsAndTheEnginesOptions) {
  const auto bench = parsed<BenchEngineOptions>(
      {"bench", "engine", "--model", "m.gguf", "--cells", "prefill-8", "--threads", "2", "--json"});
  EXPECT_EQ(bench.engine.model, "m.gguf");
  EXPECT_EQ(bench.engine.threads, 2);
  EXPECT_EQ(bench.engine.chunk_rows, 512);
  EXPECT_EQ(bench.cells, "prefill-8");
  EXPECT_TRUE(bench.json);
  EXPECT_EQ(refused({"bench"}).code, 64);
  EXPECT_EQ(refused({"bench", "engine", "--repeats", "0"}).code, 64);
}

TEST(Options, WithoutAModelTheDefaultOneOfTheCacheFolderIsUsed) {
  setenv("BATON_CACHE", "/some/cache", 1);
  const auto up = parsed<UpOptions>({"up"});
  const auto complete = parsed<CompleteOptions>({"complete", "--local", "x"});
  unsetenv("BATON_CACHE");
  EXPECT_EQ(up.model, "/some/cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");
  EXPECT_EQ(complete.engine.model, up.model);
}

TEST(Options, CompleteReadsSamplingAndEngineOptions) {
  const auto complete =
      parsed<CompleteOptions>({"complete", "Once", "--local", "--max-tokens", "7", "--temperature",
                               "0.5", "--seed", "-3", "--logits-digest", "--sequential-prefill",
                               "--no-prefix-cache", "--cache-dtype", "f32", "--chunk-rows", "32"});
  EXPECT_EQ(complete.prompt, "Once");
  EXPECT_EQ(complete.sampling.max_tokens, 7);
  EXPECT_EQ(complete.sampling.temperature, 0.5);
  EXPECT_EQ(complete.sampling.seed, -3);
  EXPECT_TRUE(complete.sampling.logits_digest);
  EXPECT_TRUE(complete.engine.sequential_prefill);
  EXPECT_FALSE(complete.engine.prefix_cache);
  EXPECT_EQ(complete.engine.cache_dtype, tensor::CacheDtype::f32);
  EXPECT_EQ(complete.engine.chunk_rows, 32);
}

TEST(Options, EveryCacheDtypeIsTakenByItsNameAndNoOther) {
  for (const auto& [name, dtype] : tensor::cache_dtypes()) {
    EXPECT_EQ(tensor::name(dtype), name);
    const auto bench = parsed<BenchEngineOptions>({"bench", "engine", "--cache-dtype", name});
    EXPECT_EQ(bench.engine.cache_dtype, dtype);
  }
  for (const char* wrong : {"q4_0", "7", ""}) {
    const Stop stop = refused({"complete", "x", "--local", "--cache-dtype", wrong});
    EXPECT_EQ(stop.code, 64);
    EXPECT_THAT(stop.text, HasSubstr("--cache-dtype"));
  }
}

TEST(Options, ExactlyOneSourceOfPromptsIsTaken) {
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"complete"},
                                             {"complete", "x", "--batch", "f"},
                                             {"complete", "x", "--tokens-file", "f"}}) {
    const Stop stop = refused(arguments);
    EXPECT_EQ(stop.code, 64);
    EXPECT_THAT(stop.text, HasSubstr("one of PROMPT, --tokens-file and --batch is needed"));
  }
}

TEST(Options, AnEngineOptionWithoutLocalIsRefusedByName) {
  const Stop stop = refused({"complete", "x", "--kernels", "ref"});
  EXPECT_EQ(stop.code, 64);
  EXPECT_THAT(stop.text, HasSubstr("--kernels needs --local"));
}

TEST(Options, LocalAndAUrlExcludeEachOtherButTheVariableDoesNotCount) {
  EXPECT_THAT(refused({"complete", "x", "--local", "--url", "http://h:1"}).text,
              HasSubstr("exclude each other"));
  setenv("BATON_URL", "http://h:1", 1);
  EXPECT_TRUE(parsed<CompleteOptions>({"complete", "x", "--local"}).local);
  EXPECT_EQ(parsed<ChatOptions>({"chat"}).url, "http://h:1");
  unsetenv("BATON_URL");
}

TEST(Options, WithoutPrefillNodesDecodeNodesMustComputePrompts) {
  EXPECT_THAT(refused({"up", "--prefill-nodes", "0"}).text, HasSubstr("--prefill-suffix-tokens"));
  const std::vector<std::string> alone = {"up", "--prefill-nodes", "0", "--prefill-suffix-tokens",
                                          "9"};
  EXPECT_EQ(parsed<UpOptions>(alone).prefill_nodes, 0);
}

TEST(Options, AnEmptyPromptOfOnceIsRefusedAndDoesNotMeanToStayUp) {
  const Stop stop = refused({"up", "--model", "m.gguf", "--once", ""});
  EXPECT_EQ(stop.code, 64);
  EXPECT_THAT(stop.text, HasSubstr("--once: the prompt is empty"));
}

TEST(Options, WhatIsWrongIsNamedAndWhatIsAskedForIsPrinted) {
  EXPECT_EQ(refused({}).code, 64);
  EXPECT_THAT(refused({"up", "--bogus"}).text, HasSubstr("--bogus"));
  EXPECT_THAT(refused({"up", "--port", "70000"}).text, HasSubstr("--port"));
  const Stop help = refused({"up", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.text, HasSubstr("--prefill-nodes"));
}

}  // namespace
}  // namespace baton::cli

#include "report.h"

#include <boost/json.hpp>
#include <gmock/gmock.h>

namespace baton::cli {
namespace {

using testing::HasSubstr;

boost::json::object object(const char* text) { return boost::json::parse(text).as_object(); }

Answer handed_over() {
  Answer answer;
  answer.prompt_tokens = 37;
  answer.token_ids = {1, 2, 3};
  answer.facts = object(R"({
    "times_ms": {"queue": 0.5, "prefill": 10, "handoff_exposed": 1.25, "first_decode": 3,
                 "decode": 20, "unaccounted": 0.25, "total": 35},
    "handoff": {"transport": "shm", "units": 180, "bytes": 1105920, "total_ms": 9.5,
                "first_unit_sent_ms": 1.5, "last_layer_computed_ms": 9.75},
    "prefill": {"node": "prefill-1"},
    "decode": {"node": "decode-1", "prompt_rows": 0, "first_step_rows": 1, "cache_before": 37,
               "cache_after": 38}})");
  return answer;
}

TEST(TimeReport, ShowsEveryPartOfTheTimeAndWhatCrossed) {
  EXPECT_EQ(time_report(handed_over()),
            "Where the time went (ms)\n"
            "  queue                   0.50\n"
            "  prefill                10.00   prefill-1, P = 37 prompt tokens\n"
            "  handoff exposed         1.25   from token 0 sampled to the cache accepted\n"
            "  first decode step       3.00   decode-1\n"
            "  decode                 20.00   decode-1, 3 tokens in all\n"
            "  unaccounted             0.25\n"
            "  total                  35.00\n"
            "Handoff: 180 units, 1.1 MB, over shm in 9.50 ms\n"
            "  first unit of layer 0 sent after 1.50 ms, last layer of its chunk computed after "
            "9.75 ms\n"
            "  decode node: 0 prompt rows, first step 1 row, cache 37 -> 38\n");
}

TEST(TimeReport, SaysWhatTheDecodeNodeHeldAlready) {
  Answer answer = handed_over();
  answer.facts["handoff"].as_object()["held_units"] = 120;
  EXPECT_THAT(time_report(answer), HasSubstr("in 9.50 ms; 120 more were held already\n"));
  answer.facts["handoff"].as_object()["units"] = 0;
  EXPECT_THAT(time_report(answer), HasSubstr("Handoff: 0 units"));
}

TEST(TimeReport, SaysWhenTheDecodeNodeComputedThePrompt) {
  Answer answer = handed_over();
  answer.facts["handoff"] = object(R"({"transport": "", "units": 0})");
  answer.facts["decode"].as_object()["prompt_rows"] = 12;
  EXPECT_THAT(time_report(answer), HasSubstr("Handoff: none, decode-1 computed the prompt\n"));
}

TEST(TimeReport, SaysWhenNothingHadToCross) {
  Answer answer = handed_over();
  answer.facts["handoff"] = object(R"({"transport": "", "units": 0})");
  EXPECT_THAT(time_report(answer), HasSubstr("Handoff: none, the first token ended the request"));
}

ClusterFacts one_of_each() {
  ClusterFacts facts;
  facts.command = "bin/baton";
  facts.api_url = "http://127.0.0.1:1";
  facts.admin_url = "http://127.0.0.1:2";
  for (const char* worker :
       {R"({"node": "decode-1", "role": "decode", "model": "tiny", "numerics_class": "lanes16-1",
            "kernel_set": "avx2", "cache_dtype": "bf16", "context_length": 2048,
            "cache_tokens": 4096, "admin": "http://127.0.0.1:3"})",
        R"({"node": "prefill-1", "role": "prefill", "cache_tokens": 1024,
            "admin": "http://127.0.0.1:4"})"}) {
    facts.workers.push_back(object(worker));
  }
  facts.links = {{"prefill-1", "decode-1", "shm", "both nodes run on one host"}};
  facts.processors = "decode-1 on 1, prefill-1 on 0";
  return facts;
}

TEST(Banner, SaysWhatRunsWhereAndHowToUseIt) {
  EXPECT_EQ(
      banner(one_of_each()),
      "\n"
      "Baton is up: 1 router, 1 prefill node, 1 decode node\n"
      "  model      tiny, context 2048 tokens\n"
      "  numerics   class lanes16-1, kernels avx2, cache bf16\n"
      "  transport  shm (prefill-1 to decode-1): both nodes run on one host\n"
      "  cache      decode-1 4096 tokens, prefill-1 1024 tokens\n"
      "  processors decode-1 on 1, prefill-1 on 0\n"
      "  API        http://127.0.0.1:1/v1\n"
      "  admin      http://127.0.0.1:2 (/livez /readyz /startupz /metrics /workers)\n"
      "  metrics    http://127.0.0.1:2/metrics\n"
      "             http://127.0.0.1:3/metrics (decode-1)\n"
      "             http://127.0.0.1:4/metrics (prefill-1)\n"
      "  try        curl http://127.0.0.1:1/v1/chat/completions -H 'Content-Type: "
      "application/json' -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Say hello.\"}], "
      "\"max_tokens\": 32}'\n"
      "             bin/baton chat --url http://127.0.0.1:1\n"
      "             bin/baton status --url http://127.0.0.1:2\n");
}

TEST(Banner, CountsLinksThatWereChosenForOneReason) {
  ClusterFacts facts = one_of_each();
  facts.links.push_back({"prefill-2", "decode-1", "shm", "both nodes run on one host"});
  EXPECT_THAT(banner(facts), HasSubstr("transport  shm (2 links): both nodes run on one host\n"));
}

TEST(BytesText, UsesPowersOfAThousand) {
  EXPECT_EQ(bytes_text(999), "999 bytes");
  EXPECT_EQ(bytes_text(368640), "368.6 kB");
  EXPECT_EQ(bytes_text(2'500'000'000), "2.5 GB");
}

}  // namespace
}  // namespace baton::cli

// `baton bench serve`: what long prompts do to streams that are being decoded. Speaks the OpenAI
// API, so that other servers can be measured the same way.
#pragma once

#include <cstdint>
#include <string>

namespace baton::cli {

struct BenchServeOptions {
  std::string url;
  int streams = 4;
  std::int64_t stream_words = 16;    ///< prompt of a stream
  std::int64_t stream_tokens = 512;  ///< asked for; an ended stream is begun anew
  std::int64_t prompt_words = 1500;  ///< of each long prompt
  double every_s = 5;
  double duration_s = 30;  ///< of each of the two parts: undisturbed, then with long prompts
  bool json = false;
};

/// Prints both parts and their ratios; returns the exit code. Fails when a stream or a long prompt
/// fails.
int bench_serve(const BenchServeOptions& options);

}  // namespace baton::cli

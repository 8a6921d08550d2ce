// What `baton bench engine` measures: a cell is a phase and its sizes, with a name that is the same
// here, in tables and beside other engines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "baton/base/result.h"
#include "baton/engine/core/step.h"
#include "baton/kernels/limits.h"
#include "baton/modelfile/model_file.h"

namespace baton::cli {

/// prefill-N: one prompt of N tokens to its first token. decode-DxB: B sequences side by side, each
/// of D cached positions when the clock starts.
struct BenchCell {
  bool prefill = true;
  std::int64_t positions = 0;  ///< prompt length, or depth
  std::int64_t batch = 1;

  friend bool operator==(const BenchCell&, const BenchCell&) = default;
};

/// "prefill-512", "decode-2048x1".
std::string name_of(const BenchCell& cell);

/// A list of names, "decode-2048" standing for x1. Reason::invalid_request names the bad one.
Result<std::vector<BenchCell>> parse_cells(std::string_view text);

/// What has to be done at the least, from the model file alone, so that every engine is held
/// against the same figures: multiplications of weights, and the bytes that hold them.
struct ModelWork {
  double weight_bytes = 0;  ///< read by one step with logits, as stored in the file
  double int8_ops = 0;      ///< of one row without logits, in weights of integer types
  double bf16_ops = 0;      ///< in F16 and BF16 weights
  double f32_ops = 0;
  double output_ops = 0;  ///< of one row of logits; the output's type is taken as the weights'

  /// Of a file that config_from() has accepted.
  static ModelWork of(const modelfile::ModelFile& file);
};

/// Shares of the machine's limits, 0 to 1.
struct LimitShares {
  double compute = 0;
  double memory = 0;
};

/// Of steps that compute `rows` rows and `logits` rows of logits in `seconds`, reading the weights
/// `steps` times and `cache_bytes` of cached keys and values. Attention's products are not counted.
LimitShares shares_of(const ModelWork& work, const kernels::MachineLimits& limits, double rows,
                      double logits, double steps, double cache_bytes, double seconds);

/// Ids spread over the vocabulary, the same on every machine; another `salt`, other ids.
std::vector<TokenId> bench_ids(std::int64_t count, std::int32_t vocabulary, std::uint64_t salt);

}  // namespace baton::cli

#include "bench_cell.h"

#include <charconv>

#include <fmt/format.h>

namespace baton::cli {
namespace {

constexpr std::int64_t most_positions = 1 << 20;
constexpr std::int64_t most_sequences = 1024;

bool read_number(std::string_view& text, std::int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

Result<BenchCell> parse_cell(std::string_view name) {
  BenchCell cell;
  std::string_view rest = name;
  cell.prefill = take(rest, "prefill-");
  const bool known = cell.prefill || take(rest, "decode-");
  bool good = known && read_number(rest, cell.positions);
  if (good && !cell.prefill && take(rest, "x")) good = read_number(rest, cell.batch);
  // The cache holds at least one position when a decode step starts: there is no depth 0.
  good = good && rest.empty() && cell.positions >= 1 && cell.positions <= most_positions &&
         cell.batch >= 1 && cell.batch <= most_sequences;
  if (good) return cell;
  return Error(Reason::invalid_request,
               fmt::format("\"{}\" is no cell; cells are prefill-N, decode-DEPTH and "
                           "decode-DEPTHxSEQUENCES",
                           name));
}

bool is_matrix(const modelfile::TensorInfo& tensor) { return tensor.n_dims == 2; }

double products(const modelfile::TensorInfo& tensor) {
  return 2.0 * static_cast<double>(tensor.elements());
}

/// Adds a tensor's operations where its type belongs.
void count(const modelfile::TensorInfo& tensor, ModelWork& work) {
  using modelfile::GgmlType;
  switch (tensor.type) {
    case GgmlType::f32:
    case GgmlType::f16:  // no instruction multiplies them
      work.f32_ops += products(tensor);
      return;
    case GgmlType::bf16:
      work.bf16_ops += products(tensor);
      return;
    default:
      work.int8_ops += products(tensor);
  }
}

}  // namespace

std::string name_of(const BenchCell& cell) {
  if (cell.prefill) return fmt::format("prefill-{}", cell.positions);
  return fmt::format("decode-{}x{}", cell.positions, cell.batch);
}

Result<std::vector<BenchCell>> parse_cells(std::string_view text) {
  std::vector<BenchCell> cells;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    BATON_ASSIGN(const BenchCell cell, parse_cell(text.substr(0, comma)));
    cells.push_back(cell);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  if (cells.empty()) return Error(Reason::invalid_request, "no cell is named");
  return cells;
}

ModelWork ModelWork::of(const modelfile::ModelFile& file) {
  ModelWork work;
  const modelfile::TensorInfo* embedding = file.find_tensor("token_embd.weight");
  const modelfile::TensorInfo* output = file.find_tensor("output.weight");
  if (output == nullptr) output = embedding;
  for (const modelfile::TensorInfo& tensor : file.tensors()) {
    if (!is_matrix(tensor) || &tensor == embedding || &tensor == output) continue;
    count(tensor, work);
    work.weight_bytes += static_cast<double>(tensor.size_bytes);
  }
  if (output != nullptr) {
    work.output_ops = products(*output);
    work.weight_bytes += static_cast<double>(output->size_bytes);
  }
  return work;
}

LimitShares shares_of(const ModelWork& work, const kernels::MachineLimits& limits, double rows,
                      double logits, double steps, double cache_bytes, double seconds) {
  const double row_seconds = work.int8_ops / limits.int8_ops + work.bf16_ops / limits.bf16_ops +
                             work.f32_ops / limits.f32_ops;
  const double row_ops = work.int8_ops + work.bf16_ops + work.f32_ops;
  const double logit_seconds = row_ops > 0 ? row_seconds * work.output_ops / row_ops : 0;
  LimitShares shares;
  shares.compute = (rows * row_seconds + logits * logit_seconds) / seconds;
  shares.memory = (steps * work.weight_bytes + cache_bytes) / limits.memory_bytes / seconds;
  return shares;
}

std::vector<TokenId> bench_ids(std::int64_t count, std::int32_t vocabulary, std::uint64_t salt) {
  std::vector<TokenId> ids;
  std::uint64_t state = 0x9e3779b97f4a7c15U * (salt + 1);
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    ids.push_back(static_cast<TokenId>((state >> 33) % static_cast<std::uint64_t>(vocabulary)));
  }
  return ids;
}

}  // namespace baton::cli

#include <string>

#include "baton/kernels/kernels.h"

#include "cpu/cpu.h"
#include "float_mode.h"
#include "lanes16/ops.h"
#include "sets.h"

namespace baton::kernels {

void set_engine_float_mode() { _mm_setcsr(engine_mxcsr); }

std::vector<std::string_view> available_sets() {
  std::vector<std::string_view> sets = {"ref", "spec"};
  if (has_avx2()) sets.push_back("avx2");
  if (has_avx512()) sets.push_back("avx512");
  return sets;
}

Result<std::unique_ptr<Kernels>> make_kernels(std::string_view set, ThreadPool& pool) {
  const bool best = set == "cpu";
  if (set == "ref") return make_ref(pool);
  if ((set == "avx512" || best) && has_avx512()) return make_lanes16(avx512_ops(), pool);
  if ((set == "avx2" || best) && has_avx2()) return make_lanes16(avx2_ops(), pool);
  if (set == "spec" || best) return make_lanes16(spec_ops(), pool);
  std::string message = "kernels: no set \"";
  message.append(set).append("\" on this processor; it has: cpu");
  for (const std::string_view name : available_sets()) message.append(", ").append(name);
  return Error{Reason::bad_config, std::move(message)};
}

}  // namespace baton::kernels

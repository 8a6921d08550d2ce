#include <string>

#include "baton/kernels/kernels.h"

#include "float_mode.h"
#include "lanes16/ops.h"
#include "sets.h"

namespace baton::kernels {

void set_engine_float_mode() { _mm_setcsr(engine_mxcsr); }

std::vector<std::string_view> available_sets() { return {"ref", "spec"}; }

Result<std::unique_ptr<Kernels>> make_kernels(std::string_view set, ThreadPool& pool) {
  if (set == "ref") return make_ref(pool);
  if (set == "spec" || set == "cpu") return make_lanes16(spec_ops(), pool);
  std::string message = "kernels: no set \"";
  message.append(set).append("\" on this processor; it has: cpu");
  for (const std::string_view name : available_sets()) message.append(", ").append(name);
  return Error{Reason::bad_config, std::move(message)};
}

}  // namespace baton::kernels

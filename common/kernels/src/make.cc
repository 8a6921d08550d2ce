#include <string>
#include <utility>

#include "baton/kernels/kernels.h"

#include "cpu/cpu.h"
#include "float_mode.h"
#include "lanes16/ops.h"
#include "sets.h"

namespace baton::kernels {

void set_engine_float_mode() { _mm_setcsr(engine_mxcsr); }

namespace {

/// The sets of the class lanes16 that this processor can run, the fastest last.
std::vector<const Lanes16Ops*> lanes16_sets() {
  std::vector<const Lanes16Ops*> sets = {&spec_ops()};
  if (has_avx2()) sets.push_back(&avx2_ops());
  if (!has_avx512()) return sets;
  sets.push_back(&avx512_ops());
  sets.push_back(&avx512fma_ops());
  if (has_fast_bf16_dot()) std::swap(sets[sets.size() - 2], sets.back());
  if (has_amx()) sets.push_back(&amx_ops());
  return sets;
}

std::vector<const Lanes16Ops*> tiles16_sets() {
  std::vector<const Lanes16Ops*> sets = {&spec_tiles_ops()};
  if (has_amx()) sets.push_back(&amx_tiles_ops());
  return sets;
}

}  // namespace

std::vector<std::string_view> available_sets() {
  std::vector<std::string_view> names = {"ref"};
  for (const Lanes16Ops* set : tiles16_sets()) names.push_back(set->name);
  for (const Lanes16Ops* set : lanes16_sets()) names.push_back(set->name);
  return names;
}

std::string_view fastest_set(bool bf16_weights) {
  return bf16_weights && has_amx() ? amx_tiles_ops().name : lanes16_sets().back()->name;
}

Result<std::unique_ptr<Kernels>> make_kernels(std::string_view set, ThreadPool& pool) {
  if (set == "ref") return make_ref(pool);
  const std::vector<const Lanes16Ops*> sets = lanes16_sets();
  if (set == "cpu") return make_lanes16(*sets.back(), pool);
  for (const auto& each_class : {sets, tiles16_sets()}) {
    for (const Lanes16Ops* each : each_class) {
      if (each->name == set) return make_lanes16(*each, pool);
    }
  }
  std::string message = "kernels: no set \"";
  message.append(set).append("\" on this processor; it has: cpu");
  for (const std::string_view name : available_sets()) message.append(", ").append(name);
  return Error{Reason::bad_config, std::move(message)};
}

}  // namespace baton::kernels

#include "baton/base/reason.h"

#include <array>
#include <cstddef>

namespace baton {
namespace {

constexpr std::array reasons = {
#define BATON_X(number, name, status, code, retry) \
  ReasonInfo{Reason::name, #name, status, code, Retry::retry},
    BATON_REASONS(BATON_X)
#undef BATON_X
};

constexpr bool numbered_without_gap() {
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    if (static_cast<std::size_t>(reasons[i].reason) != i) return false;
  }
  return true;
}
static_assert(numbered_without_gap(), "the table is indexed by the wire number");

}  // namespace

const ReasonInfo& info(Reason reason) { return reasons.at(static_cast<std::size_t>(reason)); }

std::optional<Reason> reason_from_number(std::uint32_t number) {
  if (number >= reasons.size()) return std::nullopt;
  return reasons[number].reason;
}

}  // namespace baton

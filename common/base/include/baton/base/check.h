// CHECK: for what only a bug of ours can break. On in release builds; ends the process.
#pragma once

namespace baton {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace baton

#define BATON_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::baton::check_failed(#condition, __FILE__, __LINE__))

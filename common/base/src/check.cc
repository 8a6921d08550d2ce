#include "baton/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace baton {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "baton: internal error: %s does not hold at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace baton

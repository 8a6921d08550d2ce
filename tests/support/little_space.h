// A process that gets no more memory or threads after a while.
#pragma once

#include <cstdint>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace baton::test {

/// What run_in_little_space() gives where address space cannot be limited.
inline constexpr int not_limited = 77;

/// What `run` returns in a process of its own, for the limit cannot be taken back, that may map
/// 128 MiB more than this one has; -1 when a signal ended it.
template <typename Run>
int run_in_little_space(const Run& run) {
  const pid_t child = ::fork();
  if (child == 0) {
    long pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t limit = static_cast<rlim_t>(pages) * ::sysconf(_SC_PAGESIZE) + (rlim_t{128} << 20);
    const rlimit most = {limit, limit};
    ::_exit(::setrlimit(RLIMIT_AS, &most) == 0 ? run() : not_limited);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace baton::test

#include "child.h"

#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace baton::cli {
namespace {

constexpr int exit_no_program = 127;  // as shells have it

/// In the new process, between fork and exec: async-signal-safe calls only.
[[noreturn]] void become(char* const* arguments, int input, int log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(exit_no_program);  // the parent died before prctl
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(input, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(arguments[0], arguments);
  _exit(exit_no_program);
}

}  // namespace

Result<Child> Child::start(std::string name, const std::string& program,
                           const std::vector<std::string>& arguments, const std::string& log) {
  if (access(program.c_str(), X_OK) != 0) {
    return Error(Reason::bad_config, fmt::format("{}: {}", program, std::strerror(errno)));
  }
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  const int open_error = errno;
  const pid_t parent = getpid();
  const pid_t pid = input < 0 || output < 0 ? -1 : fork();
  if (pid == 0) become(pointers.data(), input, output, parent);
  const int fork_error = errno;
  if (input >= 0) close(input);
  if (output >= 0) close(output);
  if (output < 0) {
    return Error(Reason::bad_config, fmt::format("{}: {}", log, std::strerror(open_error)));
  }
  if (pid < 0) {
    return Error(Reason::bad_config,
                 fmt::format("cannot start {}: {}", name, std::strerror(fork_error)));
  }
  return Child(std::move(name), log, pid);
}

Child::Child(Child&& other) noexcept
    : name_(std::move(other.name_)),
      log_(std::move(other.log_)),
      pid_(std::exchange(other.pid_, -1)),
      status_(other.status_) {}

Child::~Child() {
  if (!running()) return;
  signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Child::running() {
  if (pid_ < 0) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  status_ = status;
  pid_ = -1;
  return false;
}

void Child::signal(int number) {
  if (pid_ >= 0) kill(pid_, number);
}

std::string Child::ending() const {
  if (WIFSIGNALED(status_)) {
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status_),
                       strsignal(WTERMSIG(status_)));
  }
  return fmt::format("exited with code {}", WEXITSTATUS(status_));
}

std::optional<int> Child::code() const {
  if (pid_ >= 0 || !WIFEXITED(status_)) return std::nullopt;
  return WEXITSTATUS(status_);
}

std::string tail(const std::string& path, std::size_t lines, const std::string& indent) {
  std::ifstream file(path);
  std::deque<std::string> last;
  for (std::string line; std::getline(file, line);) {
    last.push_back(std::move(line));
    if (last.size() > lines) last.pop_front();
  }
  std::string out;
  for (const std::string& line : last) out += indent + line + "\n";
  return out;
}

}  // namespace baton::cli

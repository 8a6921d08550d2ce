#include "baton_run.h"

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace baton::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto longest_run = std::chrono::seconds(60);

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<pid_t> children_of(pid_t parent) {
  const std::string id = std::to_string(parent);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  std::vector<pid_t> out;
  for (pid_t child = 0; file >> child;) out.push_back(child);
  return out;
}

}  // namespace

BatonRun::BatonRun(const std::vector<std::string>& arguments, const std::string& input) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::string name = std::filesystem::temp_directory_path() / "baton-test-XXXXXX";
  folder_ = mkdtemp(name.data());
  std::ofstream(folder_ / "in") << input;
  std::vector<std::string> words = {BATON_BIN "/baton"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int in = open((folder_ / "in").c_str(), O_RDONLY);
  const int out = open((folder_ / "out").c_str(), O_WRONLY | O_CREAT, 0600);
  const int err = open((folder_ / "err").c_str(), O_WRONLY | O_CREAT, 0600);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  for (const int file : {in, out, err}) close(file);
}

BatonRun::~BatonRun() {
  if (!reap(false)) {
    signal(SIGKILL);
    reap(true);
  }
  std::filesystem::remove_all(folder_);
}

std::string BatonRun::out() const { return contents(folder_ / "out"); }
std::string BatonRun::err() const { return contents(folder_ / "err"); }

bool BatonRun::reap(bool block) {
  if (!ended_) ended_ = waitpid(pid_, &status_, block ? 0 : WNOHANG) == pid_;
  return ended_;
}

bool BatonRun::wait_for(const std::string& text) {
  const auto deadline = steady_clock::now() + longest_run;
  while (out().find(text) == std::string::npos) {
    if (reap(false) || steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return true;
}

void BatonRun::signal(int number) const {
  if (!ended_) kill(pid_, number);
}

int BatonRun::end() {
  const auto deadline = steady_clock::now() + longest_run;
  while (!reap(false)) {
    if (steady_clock::now() > deadline) {
      ADD_FAILURE() << "baton does not end; its errors:\n" << err();
      signal(SIGKILL);
      reap(true);
      break;
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
}

std::vector<pid_t> BatonRun::children() const { return children_of(pid_); }

int orphans() {
  const auto deadline = steady_clock::now() + std::chrono::seconds(30);
  for (;;) {
    const pid_t gone = waitpid(-1, nullptr, WNOHANG);
    if (gone < 0) return 0;  // there are no children
    if (gone > 0) continue;
    if (steady_clock::now() > deadline) break;
    std::this_thread::sleep_for(milliseconds(10));
  }
  int count = 0;
  for (const pid_t child : children_of(getpid())) {
    ++count;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return count;
}

}  // namespace baton::test

#include "chat.h"

#include <cstdio>
#include <iostream>

#include <unistd.h>

#include "api.h"
#include "exit_code.h"

namespace baton::cli {

int chat(const ChatOptions& options) {
  const Result<Endpoint> api = parse_url(options.url);
  if (!api) return report(api.error());
  const bool interactive = isatty(STDIN_FILENO) != 0;
  std::vector<Turn> turns;
  if (!options.system.empty()) turns.push_back({"system", options.system});
  if (interactive) std::puts("/quit or Ctrl-D ends the conversation.");
  const auto on_text = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  for (;;) {
    if (interactive) on_text("> ");
    std::string line;
    if (!std::getline(std::cin, line) || line == "/quit") return 0;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    turns.push_back({"user", line});
    const Result<Answer> answer = ask(*api, {turns, options.sampling}, on_text);
    std::puts("");
    if (answer) {
      turns.push_back({"assistant", answer->text});
      continue;
    }
    const int code = report(answer.error());
    if (code == exit_unreachable) return code;
    turns.pop_back();
  }
}

}  // namespace baton::cli

// The configuration of one program as one table: each option's name, type, range, default and help
// stand in one place. defaults < YAML file < environment < flags. What is wrong is refused at
// start, all of it in one message, with name, value, source and what would be allowed.
//
// An option "listen" of the section "router" is `--listen`, `BATON_ROUTER_LISTEN`, and
// `router: {listen: …}` in the file; "handoff.lease" is `--handoff-lease`,
// `BATON_ROUTER_HANDOFF_LEASE`, `router: {handoff: {lease: …}}`; underscores in names are hyphens
// in flags.
//
//     ConfigTable table("baton-router", "router");
//     table.add("listen", &config.listen, "Address of the API");
//     table.add("lease", &config.lease, DurationRange{1s, 60s}, "…");
//     BATON_ASSIGN(const ConfigAction action, table.load(argc, argv));
//
// Non-goals: secrets (they come from files named by path options), reloading.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baton/base/endpoint.h"
#include "baton/base/result.h"
#include "baton/base/time.h"

namespace baton {

/// Both ends are allowed values.
struct IntRange {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

struct RealRange {
  double min = 0.0;
  double max = 0.0;
};

/// Written "250us", "100ms", "5s", "2m", "1h"; a bare number is milliseconds.
struct DurationRange {
  Duration min = Duration::zero();
  Duration max = Duration::max();
};

/// Written "4096", "256KiB", "4MiB", "2GiB" or "1TiB"; a bare number is bytes.
struct SizeRange {
  std::uint64_t min = 0;
  std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
};

/// What main() is to do next.
enum class ConfigAction { run, print_help, print_config, print_version };

class ConfigTable {
 public:
  /// Names and values of the environment's variables.
  using Environment = std::vector<std::pair<std::string, std::string>>;

  /// `program` is the executable's name, `section` its top-level key in the file. One file may
  /// serve several programs: `other_sections` are theirs and are not read. Variables that
  /// Kubernetes makes for a service of the same name (BATON_ROUTER_PORT, …_SERVICE_HOST) are no
  /// options.
  ConfigTable(std::string program, std::string section,
              std::vector<std::string> other_sections = {});

  // The value that the pointer holds now is the default. It must outlive load().
  void add(std::string name, bool* value, std::string help);
  void add(std::string name, std::string* value, std::string help);
  void add(std::string name, Endpoint* value, std::string help);
  void add(std::string name, std::vector<std::string>* value, std::string help);
  void add(std::string name, std::vector<Endpoint>* value, std::string help);
  void add(std::string name, int* value, IntRange range, std::string help);
  void add(std::string name, std::int64_t* value, IntRange range, std::string help);
  void add(std::string name, std::uint32_t* value, IntRange range, std::string help);
  void add(std::string name, double* value, RealRange range, std::string help);
  void add(std::string name, Duration* value, DurationRange range, std::string help);
  void add_size(std::string name, std::uint64_t* bytes, SizeRange range, std::string help);
  /// A file or folder; an empty path is allowed. "~" is not expanded and nothing is opened.
  void add_path(std::string name, std::string* value, std::string help);

  template <typename Enum>
  void add_enum(std::string name, Enum* value, std::vector<std::pair<std::string, Enum>> words,
                std::string help);

  /// A rule over several options, checked last: an error's message is reported like a bad value's.
  void check(std::function<Result<void>()> rule);

  /// Fills the bound values. `--config FILE` or BATON_<SECTION>_CONFIG names the file; the sections
  /// of other programs in it are left alone. `--help`, `--version` and `--print-config` are known
  /// to every table; --help and --version win over everything, errors included. Reason::bad_config
  /// otherwise, with every problem found, one per line.
  Result<ConfigAction> load(int argc, const char* const* argv);

  /// The same without the process: arguments after the program's name, and the environment.
  Result<ConfigAction> load(std::span<const std::string> arguments, const Environment& environment);

  std::string help() const;

  /// The effective values with their sources, as YAML that can be loaded again.
  std::string effective() const;

  /// Where the value of an option came from: "default", "flag --listen", "environment …", "file …".
  std::string source(std::string_view name) const;

 private:
  struct Binding {
    std::function<Result<void>(std::string_view)> set;  ///< parses, checks and stores
    std::function<std::string()> text;                  ///< the value as it may be written
    std::string type;                                   ///< "DURATION", "true|false", …
    std::string allowed;                                ///< range or words; may be empty
    bool is_flag = false;                               ///< a bare --name means true
    bool is_list = false;                               ///< a repeated flag adds to it
  };
  struct Option {
    std::string name;  ///< without the section
    std::string flag;
    std::string variable;
    std::string help;
    std::string default_text;
    std::string source = "default";
    Binding binding;
  };
  class Loader;

  void add_binding(std::string name, Binding binding, std::string help);
  template <typename T>
  void add_integer(std::string name, T* value, IntRange range, std::string help);
  void add_words(std::string name, std::vector<std::string> words,
                 std::function<void(std::size_t)> set, std::function<std::size_t()> get,
                 std::string help);
  Option* find(std::string_view name);

  std::string program_;
  std::string section_;
  std::string variable_prefix_;
  std::vector<std::string> other_sections_;
  std::vector<Option> options_;
  std::vector<std::function<Result<void>()>> rules_;
};

template <typename Enum>
void ConfigTable::add_enum(std::string name, Enum* value,
                           std::vector<std::pair<std::string, Enum>> words, std::string help) {
  std::vector<std::string> names;
  for (const auto& [word, unused] : words) names.push_back(word);
  auto set = [value, words](std::size_t index) { *value = words[index].second; };
  auto get = [value, words] {
    std::size_t index = 0;
    while (index + 1 < words.size() && words[index].second != *value) ++index;
    return index;
  };
  add_words(std::move(name), std::move(names), std::move(set), std::move(get), std::move(help));
}

}  // namespace baton

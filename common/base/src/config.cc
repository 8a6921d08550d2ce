#include "baton/base/config.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <unistd.h>

#include "baton/base/check.h"

#include "config_file.h"

extern char** environ;

namespace baton {
namespace {

std::string flag_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  std::replace(name.begin(), name.end(), '.', '-');
  return "--" + name;
}

std::string variable_of(std::string name) {
  for (char& c : name) {
    if (c == '.' || c == '-') c = '_';
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return name;
}

/// Kubernetes sets NAME_PORT, NAME_PORT_80_TCP_ADDR, NAME_SERVICE_HOST, NAME_SERVICE_PORT_HTTP …
/// for every service of a namespace: for a service "baton-router" they carry our prefix.
bool is_service_variable(std::string_view rest) {
  const auto contains = [rest](std::string_view part) {
    return rest.find(part) != std::string_view::npos;
  };
  return rest == "PORT" || rest.ends_with("_PORT") || rest.starts_with("PORT_") ||
         contains("_PORT_") || contains("SERVICE_HOST") || contains("SERVICE_PORT");
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

}  // namespace

/// One run of load(): collects what was given where, applies it in order of precedence, and keeps
/// every problem, so that one start shows all of them.
class ConfigTable::Loader {
 public:
  explicit Loader(ConfigTable& table) : table_(table) {}

  Result<ConfigAction> load(std::span<const std::string> arguments,
                            const Environment& environment) {
    read_flags(arguments);
    if (action_ == ConfigAction::print_help || action_ == ConfigAction::print_version) {
      return action_;
    }
    apply_file(environment);
    apply_environment(environment);
    for (const Given& given : flags_)
      apply(*given.option, given.value, "flag " + given.option->flag);
    if (problems_.empty()) check_rules();
    if (problems_.empty()) return action_;
    return Error(Reason::bad_config, fmt::format("{}", fmt::join(problems_, "\n")));
  }

 private:
  struct Given {
    Option* option;
    std::string value;
  };

  void read_flags(std::span<const std::string> arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const std::string& argument = arguments[i];
      const std::size_t equals = argument.find('=');
      const std::string flag = argument.substr(0, equals);
      if (read_common_flag(flag, equals != std::string::npos)) continue;
      const auto [option, negated] = find_flag(flag);
      const bool is_file = flag == "--config";
      if (!option && !is_file) {
        problems_.push_back(fmt::format("unknown argument \"{}\" (see --help)", argument));
        continue;
      }
      std::string value;
      if (equals != std::string::npos) {
        value = argument.substr(equals + 1);
      } else if (option && option->binding.is_flag) {
        value = negated ? "false" : "true";
      } else if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--")) {
        value = arguments[++i];
      } else {
        problems_.push_back(fmt::format("flag {} needs a value", flag));
        continue;
      }
      if (is_file) {
        file_ = std::move(value);
      } else {
        add_flag(option, std::move(value));
      }
    }
  }

  bool read_common_flag(const std::string& flag, bool has_value) {
    if (has_value) return false;
    if (flag == "--help" || flag == "-h") {
      action_ = ConfigAction::print_help;
    } else if (flag == "--version" && action_ != ConfigAction::print_help) {
      action_ = ConfigAction::print_version;
    } else if (flag == "--print-config") {
      if (action_ == ConfigAction::run) action_ = ConfigAction::print_config;
    } else {
      return flag == "--version";
    }
    return true;
  }

  std::pair<Option*, bool> find_flag(const std::string& flag) {
    for (Option& option : table_.options_) {
      if (option.flag == flag) return {&option, false};
      if (option.binding.is_flag && "--no-" + option.flag.substr(2) == flag) return {&option, true};
    }
    return {nullptr, false};
  }

  void add_flag(Option* option, std::string value) {
    for (Given& given : flags_) {
      if (given.option != option) continue;
      if (option->binding.is_list) {
        given.value += "," + value;
      } else {
        problems_.push_back(fmt::format("flag {} is given twice", option->flag));
      }
      return;
    }
    flags_.push_back({option, std::move(value)});
  }

  void apply_file(const Environment& environment) {
    for (const auto& [name, value] : environment) {
      if (file_.empty() && name == table_.variable_prefix_ + "CONFIG") file_ = value;
    }
    if (file_.empty()) return;
    auto contents = read_config_file(file_, table_.section_, table_.other_sections_);
    if (contents.has_error()) {
      problems_.push_back(contents.error().message());
      return;
    }
    problems_.insert(problems_.end(), contents->problems.begin(), contents->problems.end());
    for (const FileEntry& entry : contents->entries) {
      if (Option* option = table_.find(entry.name)) {
        apply(*option, entry.value, entry.source);
      } else {
        problems_.push_back(
            fmt::format("{}: unknown option \"{}.{}\"", entry.source, table_.section_, entry.name));
      }
    }
  }

  void apply_environment(const Environment& environment) {
    for (const auto& [name, value] : environment) {
      if (!name.starts_with(table_.variable_prefix_)) continue;
      const std::string_view rest = std::string_view(name).substr(table_.variable_prefix_.size());
      if (rest == "CONFIG" || is_service_variable(rest)) continue;
      const auto found =
          std::find_if(table_.options_.begin(), table_.options_.end(),
                       [&](const Option& option) { return option.variable == name; });
      if (found != table_.options_.end()) {
        apply(*found, value, "environment " + name);
      } else {
        problems_.push_back(fmt::format("environment {}: unknown option", name));
      }
    }
  }

  void apply(Option& option, const std::string& value, const std::string& source) {
    const Result<void> done = option.binding.set(value);
    if (done.has_value()) {
      option.source = source;
      return;
    }
    const std::string allowed =
        option.binding.allowed.empty() ? "" : fmt::format("; allowed: {}", option.binding.allowed);
    problems_.push_back(fmt::format("{}.{} = \"{}\" ({}): {}{}", table_.section_, option.name,
                                    value, source, done.error().message(), allowed));
  }

  void check_rules() {
    for (const auto& rule : table_.rules_) {
      const Result<void> done = rule();
      if (done.has_error()) problems_.push_back(done.error().message());
    }
  }

  ConfigTable& table_;
  ConfigAction action_ = ConfigAction::run;
  std::string file_;
  std::vector<Given> flags_;
  std::vector<std::string> problems_;
};

ConfigTable::ConfigTable(std::string program, std::string section,
                         std::vector<std::string> other_sections)
    : program_(std::move(program)),
      section_(std::move(section)),
      variable_prefix_("BATON_" + variable_of(section_) + "_"),
      other_sections_(std::move(other_sections)) {}

void ConfigTable::add_binding(std::string name, Binding binding, std::string help) {
  static const std::set<std::string> taken = {"--help", "--version", "--print-config", "--config"};
  Option option;
  option.flag = flag_of(name);
  const std::string rest = variable_of(name);
  option.variable = variable_prefix_ + rest;
  BATON_CHECK(!taken.contains(option.flag) && !is_service_variable(rest));
  for (const Option& other : options_) {
    BATON_CHECK(other.flag != option.flag && other.variable != option.variable);
  }
  option.name = std::move(name);
  option.help = std::move(help);
  option.default_text = binding.text();
  option.binding = std::move(binding);
  options_.push_back(std::move(option));
}

void ConfigTable::check(std::function<Result<void>()> rule) { rules_.push_back(std::move(rule)); }

ConfigTable::Option* ConfigTable::find(std::string_view name) {
  const auto found = std::find_if(options_.begin(), options_.end(),
                                  [name](const Option& option) { return option.name == name; });
  return found == options_.end() ? nullptr : &*found;
}

Result<ConfigAction> ConfigTable::load(int argc, const char* const* argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return load(arguments, environment);
}

Result<ConfigAction> ConfigTable::load(std::span<const std::string> arguments,
                                       const Environment& environment) {
  return Loader(*this).load(arguments, environment);
}

std::string ConfigTable::help() const {
  std::string out = fmt::format(
      "Usage: {} [options]\n\n"
      "  --config FILE\n      YAML file; its section is \"{}\". Environment {}CONFIG.\n"
      "  --print-config\n      Print the effective values and where they come from, and exit.\n"
      "  --version\n  --help\n",
      program_, section_, variable_prefix_);
  for (const Option& option : options_) {
    const std::string type = option.binding.is_flag ? "[=true|false]" : " " + option.binding.type;
    out += fmt::format("  {}{}\n      {}", option.flag, type, option.help);
    if (!option.help.ends_with('.')) out += '.';
    if (!option.binding.allowed.empty())
      out += fmt::format(" Allowed: {}.", option.binding.allowed);
    if (!option.default_text.empty()) out += fmt::format(" Default: {}.", option.default_text);
    out += fmt::format(" Environment {}.\n", option.variable);
  }
  return out;
}

std::string ConfigTable::effective() const {
  std::string out = section_ + ":\n";
  for (const Option& option : options_) {
    out +=
        fmt::format("  {}: {}  # {}\n", option.name, quoted(option.binding.text()), option.source);
  }
  return out;
}

std::string ConfigTable::source(std::string_view name) const {
  const Option* option = const_cast<ConfigTable*>(this)->find(name);
  BATON_CHECK(option != nullptr);
  return option->source;
}

}  // namespace baton

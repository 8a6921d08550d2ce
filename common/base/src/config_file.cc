#include "config_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <set>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

namespace baton {
namespace {

/// Options are at most three keys deep; more is a mistake, and recursion has to end.
constexpr int max_depth = 8;

class Flattener {
 public:
  Flattener(const std::string& path, FileContents& out) : path_(path), out_(out) {}

  void flatten(const YAML::Node& node, const std::string& name, int depth) {
    if (node.IsMap() && depth < max_depth) {
      for (const auto& entry : node) {
        if (!entry.first.IsScalar()) {
          problem(entry.first, name, "a key that is no word");
          continue;
        }
        const std::string key = entry.first.Scalar();
        flatten(entry.second, name.empty() ? key : name + "." + key, depth + 1);
      }
    } else if (node.IsScalar()) {
      add(node, name, node.Scalar());
    } else if (node.IsSequence()) {
      flatten_sequence(node, name);
    } else {
      problem(node, name, "a value is missing");
    }
  }

 private:
  void flatten_sequence(const YAML::Node& node, const std::string& name) {
    std::string joined;
    for (const auto& item : node) {
      if (!item.IsScalar() || item.Scalar().find(',') != std::string::npos) {
        return problem(item, name, "a list holds single values without commas");
      }
      if (!joined.empty()) joined.push_back(',');
      joined.append(item.Scalar());
    }
    add(node, name, std::move(joined));
  }

  void add(const YAML::Node& node, const std::string& name, std::string value) {
    if (!seen_.insert(name).second) return problem(node, name, "the key stands there twice");
    out_.entries.push_back({name, std::move(value), source(node)});
  }

  void problem(const YAML::Node& node, const std::string& name, std::string_view what) {
    out_.problems.push_back(fmt::format("{}: {}: {}", source(node), name, what));
  }

  std::string source(const YAML::Node& node) const {
    return fmt::format("file {}:{}", path_, node.Mark().line + 1);
  }

  const std::string& path_;
  FileContents& out_;
  std::set<std::string> seen_;
};

/// yaml-cpp is given text, not a stream: it leaks when a stream fails inside it (a directory opens
/// well and fails on reading).
Result<std::string> text_of(const std::string& path) {
  constexpr std::size_t most_bytes = 4 * 1024 * 1024;
  std::string text(most_bytes + 1, '\0');
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    return Error(Reason::bad_config, fmt::format("file {}: {}", path, std::strerror(errno)));
  }
  text.resize(std::fread(text.data(), 1, text.size(), file));
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed) return Error(Reason::bad_config, fmt::format("file {}: cannot be read", path));
  if (text.size() > most_bytes) {
    return Error(Reason::bad_config, fmt::format("file {}: larger than 4 MiB", path));
  }
  return text;
}

}  // namespace

Result<FileContents> read_config_file(const std::string& path, const std::string& section,
                                      const std::vector<std::string>& other_sections) {
  FileContents contents;
  BATON_ASSIGN(const std::string text, text_of(path));
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return contents;
    if (!root.IsMap()) {
      return Error(Reason::bad_config, fmt::format("file {}: no sections in it", path));
    }
    Flattener flattener(path, contents);
    for (const auto& entry : root) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (key == section) {
        if (!entry.second.IsNull()) flattener.flatten(entry.second, "", 0);
      } else if (std::find(other_sections.begin(), other_sections.end(), key) ==
                 other_sections.end()) {
        contents.problems.push_back(fmt::format("file {}:{}: unknown section \"{}\"", path,
                                                entry.first.Mark().line + 1, key));
      }
    }
  } catch (const YAML::Exception& failure) {
    return Error(Reason::bad_config, fmt::format("file {}: {}", path, failure.what()));
  }
  return contents;
}

}  // namespace baton

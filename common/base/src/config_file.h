// The YAML file of a configuration as a flat list.
#pragma once

#include <string>
#include <vector>

#include "baton/base/result.h"

namespace baton {

struct FileEntry {
  std::string name;    ///< keys joined by '.', without the section
  std::string value;   ///< a sequence's items joined by ','
  std::string source;  ///< "file PATH:LINE"
};

struct FileContents {
  std::vector<FileEntry> entries;     ///< of the section
  std::vector<std::string> problems;  ///< everything that is not a value under a key
};

/// Reads one section; other top-level keys than `section` and `other_sections` are problems.
/// Reason::bad_config when the file cannot be read or is not YAML.
Result<FileContents> read_config_file(const std::string& path, const std::string& section,
                                      const std::vector<std::string>& other_sections);

}  // namespace baton

// A made-up tree of what the kernel shows of a machine, for one test.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "baton/worker/machine.h"

namespace baton::worker {

class MachineFiles : public ::testing::Test {
 protected:
  MachineFiles() { write("self", ""); }
  ~MachineFiles() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  ControlGroupFiles groups() const { return {path("fs"), path("self")}; }

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("machine-" + std::to_string(getpid()));
};

}  // namespace baton::worker

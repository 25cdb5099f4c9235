// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "support/command.h"

namespace tenon::cuda {
namespace {

namespace fs = std::filesystem;

/// A library in a Python's package below `prefix`, and PATH and the current folder as they were afterwards.
class Libraries : public ::testing::Test {
 protected:
  Libraries() : here_(fs::current_path()), path_(std::getenv("PATH")) {
    const fs::path lib = fs::path(folder_.path()) / "lib/python3.9/site-packages/nvidia/some/lib";
    fs::create_directories(lib);
    fs::copy_file("/proc/self/exe", lib / "libtenon_none.so");  // no library: it is enough that it is tried
    fs::current_path(folder_.path());
  }
  ~Libraries() override {
    fs::current_path(here_);
    ::setenv("PATH", path_.c_str(), 1);
  }
  /// Whether the file was tried with that PATH.
  bool is_tried(const std::string& path) {
    ::setenv("PATH", path.c_str(), 1);
    return open_library({"libtenon_none.so"}).why.find("was not found") == std::string::npos;
  }
  test::Folder folder_;
  fs::path here_;
  std::string path_;
};

TEST_F(Libraries, AreNotLookedForFromTheCurrentFolder) {
  EXPECT_TRUE(is_tried(folder_ / "bin"));
  for (const char* path : {"bin", "./bin", "", ":", "/usr/bin:", "bin:/usr/bin", "/usr/bin:bin", "/usr/bin::bin"})
    EXPECT_FALSE(is_tried(path)) << path;
}

}  // namespace
}  // namespace tenon::cuda

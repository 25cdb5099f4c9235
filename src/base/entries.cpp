// SPDX-License-Identifier: Apache-2.0
#include "base/entries.h"

#include <tenon/error.h>

#include <algorithm>
#include <filesystem>

namespace fs = std::filesystem;

namespace tenon {

std::vector<std::string> entries_of(const std::string& folder) {
  std::error_code fault;
  std::vector<std::string> paths;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault))
    paths.push_back(at->path().string());
  if (fault) throw Error(Code::io, "cannot read the folder", {.where = folder, .why = fault.message()});
  std::sort(paths.begin(), paths.end());
  return paths;
}

void make_folder(const std::string& path) {
  std::error_code fault;
  fs::create_directories(path, fault);
  if (is_folder(path)) return;
  throw Error(Code::io, "cannot make the folder",
              {.where = path, .why = fault ? fault.message() : "a file has this name"});
}

bool is_folder(const std::string& path) {
  std::error_code fault;
  return fs::is_directory(path, fault);
}

bool is_there(const std::string& path) {
  std::error_code fault;
  return fs::exists(path, fault);
}

bool is_regular_file(const std::string& path) {
  std::error_code fault;
  return fs::is_regular_file(path, fault);
}

int64_t size_of_file(const std::string& path) {
  std::error_code fault;
  if (!fs::is_regular_file(path, fault)) return 0;
  const auto size = fs::file_size(path, fault);
  return fault ? 0 : static_cast<int64_t>(size);
}

}  // namespace tenon

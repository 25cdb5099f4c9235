// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <filesystem>

#include "base/knobs.h"

namespace tenon::cuda {
namespace {

namespace fs = std::filesystem;

/// Entries of a folder whose names begin with `prefix`, the latest version first.
std::vector<fs::path> children(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> paths;
  std::error_code fault;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault))
    if (at->path().filename().string().rfind(prefix, 0) == 0) paths.push_back(at->path());
  std::sort(paths.rbegin(), paths.rend());
  return paths;
}

/// The lib folders of the nvidia-* packages under a Python's lib folder.
void add_packages(const fs::path& lib, std::vector<fs::path>& folders) {
  for (const fs::path& python : children(lib, "python3"))
    for (const char* packages : {"site-packages", "dist-packages"})
      for (const fs::path& package : children(python / packages / "nvidia", "")) folders.push_back(package / "lib");
}

std::vector<fs::path> search_folders() {
  std::vector<fs::path> folders;
  // A relative folder is whatever the program's current folder holds: its libraries are not for running.
  if (const auto home = knobs::value(knobs::cuda_home); home && home->front() == '/') {
    folders.push_back(fs::path(*home) / "lib64");
    folders.push_back(fs::path(*home) / "lib");
  }
  folders.push_back("/usr/local/cuda/lib64");
  for (const fs::path& toolkit : children("/usr/local", "cuda-")) folders.push_back(toolkit / "lib64");
  folders.push_back("/usr/local/nvidia/lib64");
  folders.push_back("/usr/lib/wsl/lib");
  std::vector<fs::path> prefixes;
  std::string path = knobs::value(knobs::path).value_or("");
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    if (path[begin] == '/') prefixes.push_back(fs::path(path.substr(begin, end - begin)).parent_path());
    begin = end + 1;
  }
  prefixes.push_back("/usr/local");
  prefixes.push_back("/usr");
  for (const fs::path& prefix : prefixes) add_packages(prefix / "lib", folders);
  if (const auto home = knobs::value(knobs::home); home && home->front() == '/')
    add_packages(fs::path(*home) / ".local" / "lib", folders);
  return folders;
}

std::string path_of(void* handle) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name ? map->l_name : "";
}

}  // namespace

void* Library::find(const char* symbol) const { return handle ? dlsym(handle, symbol) : nullptr; }

Library open_library(const std::vector<std::string>& names) {
  Library library;
  const auto attempt = [&](const std::string& file) {
    library.handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library.handle) {
      library.path = path_of(library.handle);
      library.why.clear();
    }
    return library.handle != nullptr;
  };
  library.why = names.front() + " was not found";
  for (const std::string& name : names)
    if (attempt(name)) return library;
  std::error_code fault;
  for (const fs::path& folder : search_folders())
    for (const std::string& name : names) {
      if (!fs::exists(folder / name, fault)) continue;
      if (attempt(folder / name)) return library;
      const char* reason = dlerror();
      library.why = reason ? reason : (folder / name).string() + " cannot be opened";
    }
  return library;
}

}  // namespace tenon::cuda

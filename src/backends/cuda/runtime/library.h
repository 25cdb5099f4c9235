// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

/// Shared libraries of NVIDIA, opened at run time: the build needs none of them.
namespace tenon::cuda {

/// A library that was opened, or why it was not.
struct Library {
  void* handle = nullptr;
  std::string path;  // of the file, as the loader resolved it
  std::string why;   // empty when it was opened
  explicit operator bool() const { return handle != nullptr; }
  /// nullptr where the library has no such function.
  void* find(const char* symbol) const;
};

/// Opens the first of `names` that the loader finds by itself, in CUDA_HOME, in the toolkit's usual folders, or in the
/// nvidia-* packages of a Python on the PATH. It stays open for good.
Library open_library(const std::vector<std::string>& names);

}  // namespace tenon::cuda

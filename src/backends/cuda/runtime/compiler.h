// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "backends/cuda/runtime/library.h"

namespace tenon::cuda {

/// A kernel to compile: a file of kernels/, or a text made at run time, with macros.
struct Source {
  std::string file;                  // "conv_direct.cu"; names the text in messages where there is one
  std::vector<std::string> defines;  // "BM=64"
  std::string text;                  // empty: the file as it was built in; may include files of kernels/
  bool empty() const { return file.empty(); }
};

/// NVRTC, opened at the first call; `why` is empty when it can be used.
struct Compiler {
  Library library;
  std::string why;
  int major = 0, minor = 0;
  std::vector<int> capabilities;  // that it compiles for, ascending: 75, 80; empty where nobody knows
};
const Compiler& compiler();

/// What to compile to for a GPU of this compute capability: its own machine code ("sm_90a", "sm_86"), or, where the
/// compiler does not know it yet, PTX of the latest capability before ("compute_90"), which the driver translates.
/// Throws Error(unsupported) where the compiler knows later ones only.
std::string architecture_for(int capability, const Compiler& by);

/// All that a kernel is compiled from but its macros: its text and the files of kernels/ that it includes.
std::string text_with_headers(const Source& source);

/// Machine code for "sm_90a" and the like, PTX for "compute_90", from the private cache or compiled into it.
/// Thread-safe. Throws Error(unsupported) where NVRTC is absent, or with the compiler's words.
std::string compile(const Source& source, const std::string& architecture);

/// A kernel of several files of kernels/, one behind the other; the last names it.
Source source_from(const std::vector<std::string>& files, std::vector<std::string> defines = {});

/// The built-in text of kernels/FILE; empty where there is none.
std::string_view kernel_text(const std::string& file);

}  // namespace tenon::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include <vector>

namespace tenon::cuda {

/// The CUDA C++ files of this folder, ops/expression_math.h and the files of ops/expressions, built in as text.
struct KernelText {
  const char* name;
  std::string_view text;
};
extern const std::vector<KernelText> kernel_texts;

}  // namespace tenon::cuda

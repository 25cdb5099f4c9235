// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>
#include <tenon/limits.h>

#include "target.h"

/// Entry points of libFuzzer (https://llvm.org/docs/LibFuzzer.html). Seeds are written to the first folder given:
/// TARGET corpus/
#include <filesystem>
#include <fstream>

extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
  tenon::set_limits({.memory_bytes = 256 << 20, .loop_rounds = 1000});
  for (int at = 1; at < *count; ++at) {
    if ((*words)[at][0] == '-' || !std::filesystem::is_directory((*words)[at])) continue;
    int index = 0;
    for (const std::string& seed : tenon::fuzz::seeds())
      std::ofstream((*words)[at] + ("/seed" + std::to_string(index++)), std::ios::binary) << seed;
    break;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    tenon::fuzz::eat({data, size});
  } catch (const tenon::Error&) {
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "code.h"

/// Runs kernels: blocks one after the other, the warps of a block in turn, lanes of a warp together while they
/// stand at the same instruction, the least first.
namespace tenon::ptx_emulator {

struct Dimensions {
  unsigned x = 1, y = 1, z = 1;
  int64_t count() const { return int64_t{x} * y * z; }
};

struct Launch {
  const char* name = "";
  Dimensions grid, block;
  uint32_t dynamic_shared_bytes = 0;
  const std::vector<Range>* ranges = nullptr;  // by address; what kernels may touch beside their own
  bool finds_races = false;
};

/// Gives the number of instructions that warps have run. Throws Fault with where it was: the kernel, the block, the
/// thread and the instruction. The kernel's parameters are in `code`.
int64_t run_kernel(const Code& code, const Launch& launch);

}  // namespace tenon::ptx_emulator

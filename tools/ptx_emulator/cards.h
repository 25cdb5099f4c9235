// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

/// Emulated GPUs: a libcuda.so.1 that loads kernels and checks what is launched against a GPU's data sheet. Where
/// TENON_PTX_EMULATOR_RUN names a compute capability there is one device, of that, and it runs kernels by interpreting
/// their PTX; else nothing runs. A program linked with it finds it in the driver's place.
namespace tenon::ptx_emulator {

struct Card {
  const char* name;
  int major, minor, multiprocessors;
  int shared_bytes;  // most that a block may have, in all
  int64_t l2_bytes;
  bool has_ranges = true;  // of addresses that memory can be put behind
};

/// By device number: one of each compute capability that has data sheets, and one that no compiler knows yet.
/// Multiprocessors and caches are those of NVIDIA's data sheets, shared memory of the CUDA programming guide's table.
inline constexpr Card cards[] = {
    {"T4", 7, 5, 40, 64 << 10, 4 << 20},          {"A100", 8, 0, 108, 163 << 10, 40 << 20},
    {"A10", 8, 6, 72, 99 << 10, 6 << 20},         {"L4", 8, 9, 58, 99 << 10, 48 << 20},
    {"H200", 9, 0, 132, 227 << 10, 50 << 20},     {"B200", 10, 0, 148, 227 << 10, 126 << 20},
    {"RTX 5090", 12, 0, 170, 99 << 10, 96 << 20}, {"later", 99, 0, 100, 99 << 10, 96 << 20, false},
};
inline constexpr int later = 7;
inline constexpr int64_t memory_bytes = int64_t{16} << 30, page_bytes = int64_t{2} << 20;

}  // namespace tenon::ptx_emulator

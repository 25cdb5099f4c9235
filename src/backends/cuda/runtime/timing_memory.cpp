// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/timing_memory.h"

#include <algorithm>
#include <cstdint>

namespace tenon::cuda {
namespace {

constexpr size_t count = size_t{1} << 20;  // of numbers, which repeat

/// Bytes that are small random numbers as f32 and as f16.
std::vector<uint32_t> small_numbers() {
  std::vector<uint32_t> numbers(count);
  uint32_t state = 1;
  for (uint32_t& number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = 0x38003800u | (state >> 4 & 0x03ff03ffu) | (state & 0x80000000u) | (state >> 3 & 0x8000u);
  }
  return numbers;
}

}  // namespace

void TimingMemory::reserve(size_t bytes) {
  if (numbers_.bytes() == 0) {
    const std::vector<uint32_t> numbers = small_numbers();
    numbers_ = Buffer(count * sizeof(uint32_t), "operands to time kernels on");
    numbers_.upload(numbers.data(), numbers_.bytes());
  }
  if (memory_.bytes() >= bytes) return;
  memory_ = Buffer();  // first, so that it makes room
  memory_ = Buffer(bytes, "operands to time kernels on");
}

void TimingMemory::renew(size_t bytes, Stream stream) {
  for (size_t at = 0; at < bytes; at += numbers_.bytes())
    check(driver().MemcpyDtoDAsync(memory_.address() + at, numbers_.address(), std::min(numbers_.bytes(), bytes - at),
                                   stream),
          "cuMemcpyDtoDAsync");
}

}  // namespace tenon::cuda

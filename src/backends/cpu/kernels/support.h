// SPDX-License-Identifier: Apache-2.0
// Helpers of the baseline halves of the kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "backends/cpu/kernels/shape.h"

namespace tenon::cpu {

constexpr int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }
constexpr int64_t align_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

// Bytes from one worker's part of the workspace to the next where each uses so many: a page and more lies between them,
// so that the prefetcher of a core that reads to the end of its part takes no lines that the next one writes. Lines of
// different parts meet in different sets of a cache.
constexpr int64_t set_apart(int64_t bytes) { return align_up(bytes, 4096) + 4096 + 256; }

// m rows of k numbers, one behind the other, times a matrix of n columns, as pixels of a pointwise convolution; rows of
// results begin `pitch` apart.
inline ConvShape rows_shape(int64_t m, int64_t k, int64_t n, int64_t pitch) {
  ConvShape shape{};
  shape.batch = shape.in_h = shape.out_h = 1;
  shape.in_w = shape.out_w = m;
  shape.in_c = shape.in_pixel = k;
  shape.out_c = n;
  shape.kernel_h = shape.kernel_w = shape.stride_h = shape.stride_w = shape.dilation_h = shape.dilation_w =
      shape.groups = 1;
  shape.in_row = shape.in_image = m * k;
  shape.out_pixel = pitch;
  shape.out_row = shape.out_image = m * pitch;
  return shape;
}

// A zero-filled float array on a 64-byte boundary.
class AlignedFloats {
 public:
  AlignedFloats() = default;
  explicit AlignedFloats(size_t count)
      : data_(static_cast<float*>(::operator new((count ? count : 1) * sizeof(float), std::align_val_t{64}))) {
    for (size_t i = 0; i < count; ++i) data_[i] = 0;
  }
  AlignedFloats(AlignedFloats&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  AlignedFloats& operator=(AlignedFloats&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~AlignedFloats() {
    if (data_) ::operator delete(data_, std::align_val_t{64});
  }
  float* data() { return data_; }
  const float* data() const { return data_; }
  float& operator[](size_t i) { return data_[i]; }

 private:
  float* data_ = nullptr;
};

// The bias of `out` channels in each group, zeros behind the last one of a group up to whole blocks; of zeros where
// there is none. Behind it the slopes of an epilogue that has some, which then points there. Kernels of all sizes share
// it.
inline std::shared_ptr<const AlignedFloats> padded_bias(const float* bias, Epilogue& epilogue, int64_t groups,
                                                        int64_t out, int64_t block) {
  const int64_t padded = align_up(out, block), all = padded * groups;
  auto floats = std::make_shared<AlignedFloats>(static_cast<size_t>(epilogue.slopes ? 2 * all : all));
  const auto put = [&](const float* list, float* to) {
    for (int64_t g = 0; list && g < groups; ++g) std::copy_n(list + g * out, out, to + g * padded);
  };
  put(bias, floats->data());
  float* const slopes = floats->data() + (epilogue.slopes ? all : 0);  // those that no activation reads are the bias
  if (epilogue.slopes) put(epilogue.slopes, slopes);
  epilogue.slopes = slopes;
  return floats;
}

}  // namespace tenon::cpu

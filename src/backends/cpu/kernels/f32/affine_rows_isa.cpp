// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/affine_rows.h"
#include "backends/cpu/kernels/simd.h"

namespace tenon::cpu {
namespace TENON_ISA_NAMESPACE {
namespace {

// kVectors vectors of each row, `left` lanes of the last: what they are multiplied by stays in registers.
template <int kVectors, bool kRelu>
TENON_INLINE void columns(const AffineRows& all, int64_t first, int left) {
  const auto read = [&](const float* p, int i) __attribute__((always_inline)) {
    return i + 1 < kVectors || left == kLanes ? load(p + i * kLanes) : load_n(p + i * kLanes, left);
  };
  Vec scale[kVectors], shift[kVectors];
  TENON_UNROLL
  for (int i = 0; i < kVectors; ++i) scale[i] = read(all.scale + first, i), shift[i] = read(all.shift + first, i);
  const float* src = all.src + first;
  float* dst = all.dst + first;
  for (int64_t row = 0; row < all.rows; ++row, src += all.src_pitch, dst += all.dst_pitch) {
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      Vec v = add(mul(read(src, i), scale[i]), shift[i]);
      if (kRelu) v = max(zero(), v);
      if (i + 1 < kVectors || left == kLanes) store(dst + i * kLanes, v);
      else store_n(dst + i * kLanes, v, left);
    }
  }
}

template <bool kRelu>
void rows_of(const AffineRows& all) {
  constexpr int kVectors = 4;
  int64_t at = 0;
  for (; at + kVectors * kLanes <= all.columns; at += kVectors * kLanes) columns<kVectors, kRelu>(all, at, kLanes);
  for (; at + kLanes <= all.columns; at += kLanes) columns<1, kRelu>(all, at, kLanes);
  if (at < all.columns) columns<1, kRelu>(all, at, (int)(all.columns - at));
}

}  // namespace

void affine_rows(const AffineRows& rows) { rows.relu ? rows_of<true>(rows) : rows_of<false>(rows); }

}  // namespace TENON_ISA_NAMESPACE
}  // namespace tenon::cpu

// SPDX-License-Identifier: Apache-2.0
// Where neighbouring outputs of a convolution lie.
#pragma once

#include "backends/cpu/kernels/shape.h"
#include "backends/cpu/kernels/simd.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// Walks outputs in order, by rows of `slots` of which only the first out_w are any.
class Outputs {
 public:
  Outputs(const ConvShape& s, int64_t slots, int64_t image, int64_t y, int64_t x, bool has_residual)
      : s_(&s), slots_(slots), width_(s.out_w), image_(image), y_(y), x_(x) {
    const bool dense = slots == s.out_w && follows(s.out_image, s.out_row, s.out_pixel) &&
                       (!has_residual || follows(s.res_image, s.res_row, s.res_pixel));
    if (!dense) return;
    x_ += (image * s.out_h + y) * s.out_w;
    image_ = y_ = 0;
    slots_ = width_ = INT64_MAX;
  }

  // Calls f(first of `count` places, how many, output of the first, residual of it) for every run of outputs.
  template <class F>
  TENON_INLINE void take(int64_t count, const F& f) {
    for (int64_t at = 0; at < count;) {
      const int64_t left = slots_ - x_, n = count - at < left ? count - at : left;
      const int64_t inside = width_ - x_ < n ? width_ - x_ : n;
      if (inside > 0)
        f(at, inside, image_ * s_->out_image + y_ * s_->out_row + x_ * s_->out_pixel,
          image_ * s_->res_image + y_ * s_->res_row + x_ * s_->res_pixel);
      at += n;
      x_ += n;
      if (x_ < slots_) continue;
      x_ = 0;
      if (++y_ < s_->out_h) continue;
      y_ = 0;
      ++image_;
    }
  }
  const ConvShape& shape() const { return *s_; }
  // Whether take() calls its function once.
  bool dense() const { return slots_ == INT64_MAX; }

 private:
  bool follows(int64_t image, int64_t row, int64_t pixel) const {
    return row == s_->out_w * pixel && (s_->batch == 1 || image == s_->out_h * row);
  }

  const ConvShape* s_;
  int64_t slots_, width_, image_, y_, x_;
};

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE

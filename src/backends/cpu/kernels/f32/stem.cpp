// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/stem.h"

#include <algorithm>

#include "backends/cpu/kernels/support.h"
#include "backends/cpu/kernels/tactics.h"

namespace tenon::cpu {

namespace {

constexpr int64_t kMaxChannels = 64;

bool is_by_pixels(const ConvShape& s) { return s.out_c <= StemPlan::most_by_pixels; }

const StemOps& ops_of(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::stem_ops;
    case Isa::avx2: return avx2::stem_ops;
    case Isa::fused: return fused::stem_ops;
    default: return portable::stem_ops;
  }
}

int64_t sum_length(const ConvShape& s) { return s.in_c * s.kernel_h * s.kernel_w; }

class StemKernel final : public ConvKernel {
 public:
  StemKernel(const StemOps& ops, const ConvShape& shape, const Epilogue& epilogue, const float* packed,
             const float* bias, int threads)
      : ops_(ops) {
    plan_.epilogue = epilogue;
    bias_ = padded_bias(bias, plan_.epilogue, 1, shape.out_c, ops.block);
    plan_.packed = packed;
    plan_.bias = bias_->data();
    fit(shape, threads);
  }

  std::unique_ptr<ConvKernel> resized(const ConvShape& shape, int threads) const override {
    auto other = std::make_unique<StemKernel>(*this);
    other->fit(shape, threads);
    return other;
  }
  size_t workspace_bytes() const override { return threads_ * plan_.worker_floats * sizeof(float); }
  void run(const float* in, const float* residual, float* out, const Worker& worker) const override {
    ops_.run(plan_, in, residual, out, worker);
  }

 private:
  void fit(const ConvShape& shape, int threads) {
    // Each phase reaches the last tap of the last pixel. Behind the rows and a row of zeros lie the offsets of the
    // taps of a kernel row, the slots of all of these, and what each slot holds.
    const int64_t reach = (shape.kernel_w - 1) * shape.dilation_w / shape.stride_w;
    const bool by_pixels = is_by_pixels(shape);
    const int64_t k = sum_length(shape),
                  phase = align_up((by_pixels ? align_up(shape.out_w, 16) : shape.out_w) + reach, 16);
    const int64_t slots = int64_t{shape.kernel_h - 1} * shape.dilation_h + 1;
    const int64_t rows = align_up((slots + 1) * shape.in_c * shape.stride_w * phase, 16);
    const int64_t worker_floats =
        set_apart((rows + 2 * align_up(k / shape.kernel_h + shape.kernel_h + slots, 8)) * 4) / 4;
    const int64_t plane = shape.in_h * shape.in_w;
    threads_ = threads;
    plan_ = {shape,
             plan_.epilogue,
             plan_.packed,
             plan_.bias,
             by_pixels,
             shape.in_channel ? shape.in_image : shape.in_c * plane,
             shape.in_channel ? shape.in_channel : plane,
             shape.in_channel ? shape.in_row : shape.in_w,
             k,
             phase,
             slots,
             worker_floats};
  }

  const StemOps& ops_;
  int threads_ = 1;
  std::shared_ptr<const AlignedFloats> bias_;
  StemPlan plan_{};
};

Reason refuses(const ConvShape& s, const Epilogue&) {
  if (!s.in_nchw) return {Reason::layout, "NCHW"};
  if (s.in_c > kMaxChannels) return {Reason::too_many, kMaxChannels, "input channels"};
  return s.groups != 1 ? Reason(Reason::grouped) : Reason();
}

template <Isa kIsa>
int64_t block_of(const ConvShape& s) {
  return is_by_pixels(s) ? StemPlan::most_by_pixels : ops_of(kIsa).block;
}

template <Isa kIsa>
size_t packed_floats(const ConvShape& s) {
  return align_up(s.out_c, block_of<kIsa>(s)) * sum_length(s);
}

template <Isa kIsa>
void pack(const ConvShape& s, const float* weights, float* packed) {
  const int64_t block = block_of<kIsa>(s);
  for (int64_t n0 = 0; n0 < s.out_c; n0 += block) {
    for (int ky = 0; ky < s.kernel_h; ++ky) {
      for (int64_t c = 0; c < s.in_c; ++c) {
        for (int kx = 0; kx < s.kernel_w; ++kx, packed += block) {
          for (int64_t n = 0; n < block; ++n) {
            packed[n] = n0 + n < s.out_c ? weights[(((n0 + n) * s.in_c + c) * s.kernel_h + ky) * s.kernel_w + kx] : 0.f;
          }
        }
      }
    }
  }
}

template <Isa kIsa>
std::unique_ptr<ConvKernel> make(const ConvShape& shape, const Epilogue& epilogue, const float* packed,
                                 const float* bias, int threads) {
  return std::make_unique<StemKernel>(ops_of(kIsa), shape, epilogue, packed, bias, threads);
}

template <Isa kIsa>
ConvTactic tactic() {
  return {"stem", refuses, packed_floats<kIsa>, pack<kIsa>, make<kIsa>};
}

}  // namespace

ConvTactic stem_tactic(Isa isa) {
  return by_vectors(isa, []<Isa kIsa>() { return tactic<kIsa>(); });
}

}  // namespace tenon::cpu

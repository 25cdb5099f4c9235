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
int64_t channels_of(const ConvShape& s) { return s.in_c / s.slices; }

class StemKernel final : public ConvKernel {
 public:
  StemKernel(const StemOps& ops, const ConvShape& shape, const Epilogue& epilogue, const float* packed,
             const float* bias, int threads, bool of_frames)
      : ops_(ops), of_frames_(of_frames) {
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
    (of_frames_ ? ops_.run_frames : ops_.run)(plan_, in, residual, out, worker);
  }

 private:
  void fit(const ConvShape& shape, int threads) {
    // Each phase reaches the last tap of the last pixel. Behind the rows lie the offsets of the taps of a kernel row,
    // the slots of all of these, and what each slot holds; behind those the sums of a row of all points.
    const int64_t reach = (shape.kernel_w - 1) * shape.dilation_w / shape.stride_w;
    const bool by_pixels = is_by_pixels(shape) && !of_frames_;
    const int64_t channels = channels_of(shape), plane = shape.in_h * shape.in_w;
    const int64_t k = sum_length(shape) / (of_frames_ ? shape.slices : 1),
                  phase = align_up((by_pixels ? align_up(shape.out_w, 16) : shape.out_w) + reach, 16);
    const int64_t slots = int64_t{shape.kernel_h - 1} * shape.dilation_h + 1;
    const int64_t planes = of_frames_ ? FramesStem::points * channels : shape.in_c;
    const int64_t rows = align_up(slots * planes * shape.stride_w * phase, 16);
    const int64_t sums = of_frames_ ? align_up(FramesStem::points * shape.out_w * ops_.block, 16) : 0;
    const int64_t worker_floats =
        set_apart((rows + 2 * align_up(shape.in_c * shape.kernel_w + shape.kernel_h + slots, 8) + sums) * 4) / 4;
    threads_ = threads;
    plan_.shape = shape, plan_.by_pixels = by_pixels, plan_.k = k, plan_.phase = phase, plan_.slots = slots;
    plan_.image = shape.in_channel ? shape.in_image : shape.in_c * plane;
    plan_.channel = shape.in_channel ? shape.in_channel : plane;
    plan_.row = shape.in_channel ? shape.in_row : shape.in_w;
    plan_.channels = channels, plan_.worker_floats = worker_floats;
  }

  const StemOps& ops_;
  bool of_frames_;
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

template <Isa kIsa, bool kOfFrames = false>
std::unique_ptr<ConvKernel> make(const ConvShape& shape, const Epilogue& epilogue, const float* packed,
                                 const float* bias, int threads) {
  return std::make_unique<StemKernel>(ops_of(kIsa), shape, epilogue, packed, bias, threads, kOfFrames);
}

template <Isa kIsa>
ConvTactic tactic() {
  return {"stem", refuses, packed_floats<kIsa>, pack<kIsa>, make<kIsa>};
}

// Frames one after the other, each seen by windows of three.
Reason refuses_frames(const ConvShape& s, const Epilogue& epilogue) {
  if (const Reason reason = refuses(s, epilogue)) return reason;
  if (s.frame == 0 || s.slices != FramesStem::taps) return {Reason::window, "three frames"};
  return s.in_slice != s.frame || s.in_image != s.frame ? Reason(Reason::strides, "1 over frames") : Reason();
}

template <Isa kIsa>
size_t packed_floats_of_frames(const ConvShape& s) {
  return align_up(s.out_c, ops_of(kIsa).block) * sum_length(s) / FramesStem::taps * FramesStem::points;
}

// What the weights of three frames are at a point of F(4, 3).
double weight_at(int64_t point, double a, double b, double c) {
  switch (point) {
    case 0: return a / 4;
    case 1: return -(a + b + c) / 6;
    case 2: return -(a - b + c) / 6;
    case 3: return (a + 2 * b + 4 * c) / 24;
    case 4: return (a - 2 * b + 4 * c) / 24;
    default: return c;
  }
}

template <Isa kIsa>
void pack_frames(const ConvShape& s, const float* weights, float* packed) {
  const int64_t block = ops_of(kIsa).block, channels = channels_of(s), plane = int64_t{s.kernel_h} * s.kernel_w;
  for (int64_t n0 = 0; n0 < s.out_c; n0 += block)
    for (int64_t point = 0; point < FramesStem::points; ++point)
      for (int64_t ky = 0; ky < s.kernel_h; ++ky)
        for (int64_t c = 0; c < channels; ++c)
          for (int64_t kx = 0; kx < s.kernel_w; ++kx)
            for (int64_t n = n0; n < n0 + block; ++n) {
              const float* w = weights + (n * s.in_c + c) * plane + ky * s.kernel_w + kx;
              const int64_t frame = channels * plane;
              *packed++ = n < s.out_c ? static_cast<float>(weight_at(point, w[0], w[frame], w[2 * frame])) : 0.f;
            }
}

template <Isa kIsa>
ConvTactic frames_tactic() {
  return {"winograd_frames", refuses_frames, packed_floats_of_frames<kIsa>, pack_frames<kIsa>, make<kIsa, true>};
}

}  // namespace

ConvTactic stem_tactic(Isa isa) {
  return by_vectors(isa, []<Isa kIsa>() { return tactic<kIsa>(); });
}

ConvTactic winograd_frames_tactic(Isa isa) {
  return by_vectors(isa, []<Isa kIsa>() { return frames_tactic<kIsa>(); });
}

}  // namespace tenon::cpu

#include "backends/cpu/kernels/depthwise.h"

#include <algorithm>

#include "backends/cpu/kernels/support.h"
#include "backends/cpu/kernels/tactics.h"

namespace tenon::cpu {

namespace {

constexpr int64_t kChunk = 128;  // channels; small maps need the channels cut to feed all workers

const DepthwiseOps& ops_of(Isa isa) {
  switch (isa) {
    case Isa::avx512: return avx512::depthwise_ops;
    case Isa::avx2: return avx2::depthwise_ops;
    default: return portable::depthwise_ops;
  }
}

class DepthwiseKernel final : public ConvKernel {
 public:
  DepthwiseKernel(const DepthwiseOps& ops, const ConvShape& shape, const Epilogue& epilogue, const float* packed,
                  const float* bias)
      : ops_(ops), bias_(align_up(shape.out_c, ops.lanes)) {
    if (bias) std::copy_n(bias, shape.out_c, bias_.data());
    const int64_t chunk = shape.batch * shape.out_h >= 32 ? shape.out_c : kChunk;
    plan_ = {shape, epilogue, packed, bias_.data(), chunk, ceil_div(shape.out_c, chunk)};
  }

  size_t workspace_bytes() const override { return 0; }
  void run(const float* in, const float* residual, float* out, const Worker& worker) const override {
    ops_.run(plan_, in, residual, out, worker);
  }

 private:
  const DepthwiseOps& ops_;
  AlignedFloats bias_;
  DepthwisePlan plan_{};
};

const char* refuses(const ConvShape& s, const Epilogue&) {
  if (s.in_nchw) return "reads NHWC only";
  return s.groups != s.in_c || s.groups != s.out_c ? "needs one input and one output channel per group" : nullptr;
}

template <Isa kIsa>
size_t packed_floats(const ConvShape& s) {
  return s.kernel_h * s.kernel_w * align_up(s.out_c, ops_of(kIsa).lanes);
}

// [vector of channels][tap][lane], zeros behind the last channel.
template <Isa kIsa>
void pack(const ConvShape& s, const float* weights, float* packed) {
  const int64_t lanes = ops_of(kIsa).lanes, taps = s.kernel_h * s.kernel_w;
  for (int64_t c0 = 0; c0 < s.out_c; c0 += lanes) {
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t c = c0; c < c0 + lanes; ++c) *packed++ = c < s.out_c ? weights[c * taps + t] : 0.f;
    }
  }
}

template <Isa kIsa>
std::unique_ptr<ConvKernel> make(const ConvShape& shape, const Epilogue& epilogue, const float* packed,
                                 const float* bias, int) {
  return std::make_unique<DepthwiseKernel>(ops_of(kIsa), shape, epilogue, packed, bias);
}

template <Isa kIsa>
ConvTactic tactic() {
  return {"depthwise", refuses, packed_floats<kIsa>, pack<kIsa>, make<kIsa>};
}

}  // namespace

ConvTactic depthwise_tactic(Isa isa) {
  switch (isa) {
    case Isa::avx512: return tactic<Isa::avx512>();
    case Isa::avx2: return tactic<Isa::avx2>();
    default: return tactic<Isa::portable>();
  }
}

}  // namespace tenon::cpu

// SPDX-License-Identifier: Apache-2.0
// From exact sums to bytes or floats; see Int8Output.
#pragma once

#include "backends/cpu/kernels/int8/int8.h"

#include "backends/cpu/kernels/int8/simd_int8.h"

#include "backends/cpu/kernels/f32/epilogue.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// kBlock output channels from place `at` of the lists, of which the first `channels` count.
struct BlockOfChannels {
  int64_t at;
  int channels;
};

// A block's sums to be: what they are of, and channel 0 of it in the first pixel's residual and output.
struct Job : BlockOfChannels {
  const std::byte* weights;
  const int32_t* start;
  const int32_t* shifts;   // or null; see Int8Plan
  const int32_t* windows;  // with shifts: sums of the bytes of each window
  const uint8_t* residual;
  std::byte* out;
};

// Numbers in_steps as whole ones, from kCount vectors of sums and, where kAdds, what is added and times which, by
// factors that repeat after kEach. `clamp` is what else comes before rounding.
template <bool kAdds, int kEach, int kCount, class Clamp>
TENON_INLINE void round_steps(const Vec (&sum)[kCount], const Vec (&r)[kCount], const Vec* multiplier, const Vec* bias,
                              const Vec* by, [[maybe_unused]] float certain, const Clamp& clamp, IVec (&n)[kCount]) {
  Vec x[kCount];
#define TENON_EACH TENON_UNROLL for (int i = 0; i < kCount; ++i)
#ifndef __AVX2__
  // Without such instructions each product and each sum is rounded; see Int8Output::certain.
  Vec far = zero();
  TENON_EACH x[i] = add(mul(sum[i], multiplier[i % kEach]), bias[i % kEach]);
  if constexpr (kAdds) TENON_EACH x[i] = add(x[i], mul(r[i], by[i % kEach]));
  TENON_EACH x[i] = clamp(x[i]);
  TENON_EACH n[i] = to_int(x[i]);
  TENON_EACH far = max(far, abs(sub(x[i], to_float(n[i]))));
  if (!any_less(set1(certain), far)) return;
#endif
  TENON_EACH x[i] = fused(sum[i], multiplier[i % kEach], bias[i % kEach]);
  if constexpr (kAdds) TENON_EACH x[i] = fused(r[i], by[i % kEach], x[i]);
  TENON_EACH n[i] = to_int(clamp(x[i]));
#undef TENON_EACH
}

// The float steps of Int8Output, with what is the same for all pixels in registers. Its epilogue is normalised().
template <class Act>
class Finisher {
 public:
  explicit TENON_INLINE Finisher(const Int8Output& o)
      : epilogue_(o.epilogue),
        multiplier_(o.multiplier),
        bias_(o.bias),
        residual_scale_(o.residual_scale),
        inverse_(o.inverse_scale),
        weight_sums_(o.weight_sums),
        is_sums_(o.sums),
        in_steps_(std::is_same_v<Act, expr::Clip> && o.in_steps),
        is_dynamic_(o.dynamic != nullptr),
        residual_zero_(iset1(o.residual_zero)),
        zero_point_(iset16(o.out_zero)),
        dynamic_zero_(iset1(is_dynamic_ ? o.dynamic->zero : 0)),
        dynamic_scale_(set1(is_dynamic_ ? o.dynamic->scale : 1)),
        certain_(o.certain) {
    float low = static_cast<float>(-o.out_zero), high = static_cast<float>(255 - o.out_zero);
    if (in_steps_) low = larger(low, o.epilogue.alpha), high = lesser(high, o.epilogue.beta);
    low_ = set1(low), high_ = set1(high);
  }

  TENON_INLINE void pixel(const int32_t* sums, const BlockOfChannels& block, const uint8_t* residual,
                          std::byte* out) const {
    if (is_sums_) {
      __builtin_memcpy(out, sums, block.channels * sizeof(int32_t));
      return;
    }
    alignas(64) uint8_t copy[kBlock + 64];
    if (residual && block.channels < kBlock) {
      load_bytes_n(copy, residual, block.channels);
      residual = copy;
    }
    if (!inverse_) {
      for (int c = 0; c < block.channels; c += kLanes) {
        const Vec x = real(sums, block, c, residual);
        float* to = reinterpret_cast<float*>(out) + c;
        if (block.channels - c >= kLanes) store(to, x);
        else store_n(to, x, block.channels - c);
      }
      return;
    }
    const IVec a = whole(sums, block, 0, residual);
    const IVec b = block.channels > kLanes ? whole(sums, block, kLanes, residual) : a;
    if (block.channels == kBlock) store_bytes(reinterpret_cast<uint8_t*>(out), a, b, zero_point_);
    else store_bytes_n(reinterpret_cast<uint8_t*>(out), a, b, zero_point_, block.channels);
  }

 private:
  static TENON_INLINE float larger(float a, float b) { return a > b ? a : b; }
  static TENON_INLINE float lesser(float a, float b) { return a < b ? a : b; }
  TENON_INLINE Vec linear(const int32_t* sums, const BlockOfChannels& block, int c) const {
    IVec sum = iload(sums + c);
    Vec multiplier = load(multiplier_ + block.at + c);
    if (weight_sums_) sum = isub(sum, imul(dynamic_zero_, iload(weight_sums_ + block.at + c)));
    if (is_dynamic_) multiplier = mul(dynamic_scale_, multiplier);
    return add(mul(to_float(sum), multiplier), load(bias_ + block.at + c));
  }
  TENON_INLINE Vec other(const uint8_t* residual, const BlockOfChannels& block, int c) const {
    return mul(to_float(isub(widen_u8(residual + c), residual_zero_)), load(residual_scale_ + block.at + c));
  }
  TENON_INLINE Vec real(const int32_t* sums, const BlockOfChannels& block, int c, const uint8_t* residual) const {
    Vec x = linear(sums, block, c);
    const float* const slopes = epilogue_.slopes + block.at + c;
    if (!residual) return activate<Act>(x, epilogue_, slopes);
    const Vec r = other(residual, block, c);
    if (epilogue_.residual == Residual::before) return activate<Act>(add(x, r), epilogue_, slopes);
    return add(activate<Act>(x, epilogue_, slopes), r);
  }
  TENON_INLINE IVec whole(const int32_t* sums, const BlockOfChannels& block, int c, const uint8_t* residual) const {
    const auto clamp = [&](Vec x) { return min(high_, max(low_, x)); };
    const int64_t at = block.at + c;
    if (!in_steps_) return to_int(clamp(mul(real(sums, block, c, residual), load(inverse_ + at))));
    const Vec sum = to_float(iload(sums + c)), multiplier = load(multiplier_ + at), bias = load(bias_ + at);
    const Vec r = residual ? to_float(widen_u8(residual + c)) : zero(), by = load(residual_scale_ + at);
    IVec n[1];
    if (residual) round_steps<true, 1, 1>({sum}, {r}, &multiplier, &bias, &by, certain_, clamp, n);
    else round_steps<false, 1, 1>({sum}, {r}, &multiplier, &bias, &by, certain_, clamp, n);
    return n[0];
  }

  const Epilogue epilogue_;
  const float *const multiplier_, *const bias_, *const residual_scale_, *const inverse_;
  const int32_t* const weight_sums_;
  const bool is_sums_, in_steps_, is_dynamic_;
  const IVec residual_zero_, zero_point_, dynamic_zero_;
  const Vec dynamic_scale_;
  const float certain_;
  Vec low_, high_;
};

}  // namespace

// In int8_winograd_isa.cpp and int8_depthwise_isa.cpp.
void run_winograd8(const Int8WinogradPlan& plan, const uint8_t* in, const uint8_t* residual, void* out,
                   const Worker& worker);
void run_depthwise8(const Int8DepthwisePlan& plan, const uint8_t* in, const uint8_t* residual, void* out,
                    const Worker& worker);

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE

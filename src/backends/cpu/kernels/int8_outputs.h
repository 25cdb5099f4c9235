// Sums of neighbouring outputs to bytes, or to what else Int8Output asks for, a block of channels at a time.
#pragma once

#include "backends/cpu/kernels/int8_finish.h"
#include "backends/cpu/kernels/outputs.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

#ifdef __AVX2__
constexpr bool kHasFused = true;
// x / (1 + exp(-x)) times a factor that xs = x * factor has already, to about 2e-7 of it and 1e-6 of the factor. exp by
// a polynomial of degree 4 fitted to 2^f.
TENON_INLINE Vec near_silu(Vec x, Vec xs) {
  const Vec turned = set1(-1.44269504f), magic = set1(12582912.f);
  const Vec inside = min(set1(80.f), max(set1(-80.f), x));
  const Vec n = sub(fused(inside, turned, magic), magic), f = fused(inside, turned, sub(zero(), n));
  Vec p = fused(set1(9.58281382918e-3f), f, set1(5.59064298868e-2f));
  p = fused(p, f, set1(2.40240991116e-1f));
  p = fused(p, f, set1(6.93124175072e-1f));
  p = fused(p, f, set1(1.f));
  return mul(xs, reciprocal(add(set1(1.f), scale_pow2(p, n))));
}
#else
constexpr bool kHasFused = false;
TENON_INLINE Vec near_silu(Vec, Vec xs) { return xs; }
TENON_INLINE bool any_more(Vec, Vec) { return true; }
TENON_INLINE Vec fused(Vec a, Vec b, Vec c) { return add(mul(a, b), c); }
#endif

// The float steps of Int8Output for a block of channels, whose factors stay in registers, where the sums are bounded.
// Rounding keeps order: clamps ahead of it are clamps of bytes. Without an activation a clip is one of these, too.
template <Activation kAct, Residual kResidual>
class ByteRows {
 public:
  TENON_INLINE ByteRows(const Int8Output& o, const Job& job)
      : epilogue_(o.epilogue),
        channels_(job.channels),
        residual_zero_(iset1(o.residual_zero)),
        zero_point_(iset16(o.out_zero)) {
    TENON_UNROLL
    for (int v = 0; v < 2; ++v) {
      multiplier_[v] = load(o.multiplier + job.at + v * kLanes);
      bias_[v] = load(o.bias + job.at + v * kLanes);
      inverse_[v] = load(o.inverse_scale + job.at + v * kLanes);
      if (kResidual != Residual::none) residual_scale_[v] = load(o.residual_scale + job.at + v * kLanes);
    }
    float low = static_cast<float>(-o.out_zero), high = static_cast<float>(255 - o.out_zero);
    if constexpr (kAct == Activation::none) {
      const float alpha = o.epilogue.alpha * o.same_inverse, beta = o.epilogue.beta * o.same_inverse;
      if (alpha > low) low = alpha < high ? alpha : high;
      if (beta < high) high = beta > low ? beta : low;
    }
    if constexpr (kNearly) {
      // How far near_silu() may be from what the exact steps give: what is that near to halfway is taken again.
      float most = 0;
      for (int c = 0; c < channels_; ++c) {
        const float inverse = o.inverse_scale[job.at + c];
        float error = 1.5e-4f + 2e-6f * inverse;
        if (kResidual == Residual::after) error += 1.5e-4f * o.residual_scale[job.at + c] * inverse;
        most = most < error ? error : most;
      }
      certain_ = set1(0.5f - most);
    }
    low_ = iset8(static_cast<int32_t>(__builtin_rintf(low)) + o.out_zero);
    high_ = iset8(static_cast<int32_t>(__builtin_rintf(high)) + o.out_zero);
  }

  // `count` rows of sums, `pitch` apart.
  TENON_INLINE void run(const int32_t* sums, int64_t pitch, int64_t count, const uint8_t* residual,
                        int64_t residual_step, uint8_t* out, int64_t step) const {
    if (channels_ > kLanes) {
      const int n = channels_ == kBlock ? -1 : channels_;
      int64_t at = 0;
      for (; at + 2 <= count; at += 2, sums += 2 * pitch, out += 2 * step) {
        IVec v;
        Vec far = zero();
        if constexpr (kNearly)
          v = to_bytes(both<true>(sums, residual, far), both<true>(sums + pitch, residual + residual_step, far));
        if (!kNearly || any_more(far, certain_)) [[unlikely]]
          v = to_bytes(both<false>(sums, residual, far), both<false>(sums + pitch, residual + residual_step, far));
        const IVec bytes = clamp_bytes(v, low_, high_);
        store_half<0>(out, bytes, n);
        store_half<1>(out + step, bytes, n);
        if (kResidual != Residual::none) residual += 2 * residual_step;
      }
      if (at == count) return;
      Vec far;
      const IVec words = both<false>(sums, residual, far);
      store_half<0>(out, clamp_bytes(to_bytes(words, words), low_, high_), n);
      return;
    }
    const int n = channels_ == kLanes ? -1 : channels_;
    int64_t at = 0;
    for (; at + 4 <= count; at += 4, sums += 4 * pitch, out += 4 * step) {
      IVec v;
      Vec far = zero();
      const auto four = [&]<bool kNear>() __attribute__((always_inline)) {
        const IVec ab = to_words(first<kNear>(sums, residual, far),
                                 first<kNear>(sums + pitch, residual + residual_step, far), zero_point_);
        const IVec cd = to_words(first<kNear>(sums + 2 * pitch, residual + 2 * residual_step, far),
                                 first<kNear>(sums + 3 * pitch, residual + 3 * residual_step, far), zero_point_);
        v = to_bytes(ab, cd);
      };
      if constexpr (kNearly) four.template operator()<true>();
      if (!kNearly || any_more(far, certain_)) [[unlikely]] four.template operator()<false>();
      const IVec bytes = clamp_bytes(v, low_, high_);
      store_quarter<0>(out, bytes, n);
      store_quarter<1>(out + step, bytes, n);
      store_quarter<2>(out + 2 * step, bytes, n);
      store_quarter<3>(out + 3 * step, bytes, n);
      if (kResidual != Residual::none) residual += 4 * residual_step;
    }
    for (; at < count; ++at, sums += pitch, out += step) {
      Vec far;
      const IVec a = first<false>(sums, residual, far), words = to_words(a, a, zero_point_);
      store_quarter<0>(out, clamp_bytes(to_bytes(words, words), low_, high_), n);
      if (kResidual != Residual::none) residual += residual_step;
    }
  }

 private:
  static constexpr bool kNearly = kAct == Activation::silu && kHasFused;

  // `kNear`: by near_silu(), and `far` becomes the largest distance from a whole number seen.
  template <bool kNear>
  TENON_INLINE IVec whole(const int32_t* sums, int v, const uint8_t* residual, Vec& far) const {
    Vec x = add(mul(to_float(iload(sums + v * kLanes)), multiplier_[v]), bias_[v]), r = x;
    if constexpr (kResidual != Residual::none)
      r = mul(to_float(isub(widen_u8(residual + v * kLanes), residual_zero_)), residual_scale_[v]);
    if constexpr (kResidual == Residual::before) x = add(x, r);
    if constexpr (kNear) {
      Vec y = near_silu(x, mul(x, inverse_[v]));
      if constexpr (kResidual == Residual::after) y = fused(r, inverse_[v], y);
      const IVec n = to_int(y);
      far = max(far, abs(sub(y, to_float(n))));
      return n;
    }
    if constexpr (kAct != Activation::none) x = activate<kAct>(x, epilogue_);
    if constexpr (kResidual == Residual::after) x = add(x, r);
    return to_int(mul(x, inverse_[v]));
  }
  template <bool kNear>
  TENON_INLINE IVec both(const int32_t* sums, const uint8_t* residual, Vec& far) const {
    alignas(64) uint8_t copy[kBlock];
    if (kResidual != Residual::none && channels_ < kBlock) {
      load_bytes_n(copy, residual, channels_);
      residual = copy;
    }
    return to_words(whole<kNear>(sums, 0, residual, far), whole<kNear>(sums, 1, residual, far), zero_point_);
  }
  template <bool kNear>
  TENON_INLINE IVec first(const int32_t* sums, const uint8_t* residual, Vec& far) const {
    alignas(64) uint8_t copy[kBlock];
    if (kResidual != Residual::none && channels_ < kLanes) {
      load_bytes_n(copy, residual, channels_);
      residual = copy;
    }
    return whole<kNear>(sums, 0, residual, far);
  }

  const Epilogue epilogue_;
  const int channels_;
  const IVec residual_zero_, zero_point_;
  Vec multiplier_[2], bias_[2], inverse_[2], residual_scale_[2];
  IVec low_, high_;
  Vec certain_;
};

// Finishes `count` places whose sums are `pitch` apart.
using Finish = void (*)(const Int8Output&, const Job&, const int32_t* sums, int64_t pitch, int64_t count, Outputs&);

template <Activation kAct, Residual kResidual>
void finish_bytes(const Int8Output& o, const Job& job, const int32_t* sums, int64_t pitch, int64_t count,
                  Outputs& outputs) {
  const ByteRows<kAct, kResidual> rows(o, job);
  const ConvShape& s = outputs.shape();
  outputs.take(count, [&](int64_t at, int64_t n, int64_t out, int64_t residual) __attribute__((always_inline)) {
    rows.run(sums + at * pitch, pitch, n, job.residual + residual, s.res_pixel,
             reinterpret_cast<uint8_t*>(job.out) + out, s.out_pixel);
  });
}

template <Activation kAct>
void finish_any(const Int8Output& o, const Job& job, const int32_t* sums, int64_t pitch, int64_t count,
                Outputs& outputs) {
  const Finisher<kAct> finisher(o);
  const ConvShape& s = outputs.shape();
  const int64_t size = o.inverse_scale ? 1 : 4;
  outputs.take(count, [&](int64_t at, int64_t n, int64_t out, int64_t residual) {
    for (int64_t i = 0; i < n; ++i)
      finisher.pixel(sums + (at + i) * pitch, job, job.residual ? job.residual + residual + i * s.res_pixel : nullptr,
                     job.out + (out + i * s.out_pixel) * size);
  });
}

// The way to finish; the epilogue of `o` is normalised() and says whether there is a residual.
inline Finish finish_of(const Int8Output& o) {
  Finish finish = nullptr;
  const Residual residual = o.epilogue.residual;
  const auto choose = [&]<Activation kAct>() {
    if (residual == Residual::none) finish = finish_bytes<kAct, Residual::none>;
    else if (residual == Residual::before) finish = finish_bytes<kAct, Residual::before>;
    else finish = finish_bytes<kAct, Residual::after>;
  };
  const bool bytes = o.inverse_scale && o.bounded;
  const bool folds = o.epilogue.act == Activation::clip && o.same_inverse != 0 && residual != Residual::after;
  if (bytes && folds) choose.template operator()<Activation::none>();
  else if (bytes) with_activation(o.epilogue.act, choose);
  else with_activation(o.epilogue.act, [&]<Activation kAct>() { finish = finish_any<kAct>; });
  return finish;
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// Sums of neighbouring outputs to bytes, or to what else Int8Output asks for, a block of channels at a time.
#pragma once

#include "backends/cpu/kernels/int8/int8_finish.h"
#include "backends/cpu/kernels/int8/int8_near.h"
#include "backends/cpu/kernels/outputs.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// In the place of an activation: outputs that are in_steps, without a zero point, whose clip is that of a byte.
struct PlainSteps : expr::Identity {};

TENON_INLINE bool are_plain_steps(const Int8Output& o) {
  return o.in_steps && o.out_zero == 0 && o.epilogue.alpha <= 0 && o.epilogue.beta >= 255;
}

// The float steps of Int8Output for a block of channels, whose factors stay in registers, where the sums are bounded.
// Rounding keeps order: clamps ahead of it are clamps of bytes. Identity is for outputs that are in_steps: their clip
// is one of these, too. Of PlainSteps saturation is all of it.
template <class Act, Residual kResidual>
class ByteRows {
 public:
  TENON_INLINE ByteRows(const Int8Output& o, const BlockOfChannels& block)
      : epilogue_(o.epilogue),
        channels_(block.channels),
        residual_zero_(iset1(o.residual_zero)),
        zero_point_(iset16(o.out_zero)),
        certain_steps_(o.certain) {
    TENON_UNROLL
    for (int v = 0; v < 2; ++v) {
      multiplier_[v] = load(o.multiplier + block.at + v * kLanes);
      bias_[v] = load(o.bias + block.at + v * kLanes);
      if (!kInSteps) inverse_[v] = load(o.inverse_scale + block.at + v * kLanes);
      if (kBySlopes<Act>) slopes_[v] = load(o.epilogue.slopes + block.at + v * kLanes);
      if (kResidual != Residual::none) residual_scale_[v] = load(o.residual_scale + block.at + v * kLanes);
    }
    float low = static_cast<float>(-o.out_zero), high = static_cast<float>(255 - o.out_zero);
    if constexpr (kInSteps) {
      const float alpha = o.epilogue.alpha, beta = o.epilogue.beta;
      if (alpha > low) low = alpha < high ? alpha : high;
      if (beta < high) high = beta > low ? beta : low;
    }
    if constexpr (kNearly) {
      // How far near_activation() may be from what the exact steps give: what is that near to halfway is taken again.
      Vec error[2];
      TENON_UNROLL
      for (int v = 0; v < 2; ++v) {
        error[v] = near_error<Act>(inverse_[v]);
        if (kResidual == Residual::after)
          error[v] = fused(residual_scale_[v], mul(inverse_[v], set1(1.5e-4f)), error[v]);
      }
      certain_ = sub(set1(0.5f), largest(max(error[0], error[1])));
    }
    low_ = iset8(static_cast<int32_t>(__builtin_rintf(low)) + o.out_zero);
    high_ = iset8(static_cast<int32_t>(__builtin_rintf(high)) + o.out_zero);
  }

#ifdef __AVX512F__
  // Two rows of kBlock sums in few registers beside them: what is constant is read anew.
  TENON_INLINE void pair(const IVec (&a)[2], const IVec (&b)[2], const uint8_t* residual, int64_t residual_step,
                         uint8_t* out, int64_t step) const {
    const ByteRows* rows = this;
    __asm__ volatile("" : "+r"(rows));
    const IVec first = rows->as_int16(a, residual), second = rows->as_int16(b, residual + residual_step);
    const IVec in_order = _mm512_permutexvar_epi32(rows->order_, to_bytes_in_lanes(first, second));
    const IVec v = kPlain ? in_order : clamp_bytes(in_order, rows->low_, rows->high_);
    extract_half<0>(out, v);
    extract_half<1>(out + step, v);
  }
#endif

  // `count` rows of sums, `pitch` apart.
  TENON_INLINE void run(const int32_t* sums, int64_t pitch, int64_t count, const uint8_t* residual,
                        int64_t residual_step, uint8_t* out, int64_t step) const {
    if (channels_ == kBlock) return halves<true>(sums, pitch, count, residual, residual_step, out, step);
    if (channels_ > kLanes) return halves<false>(sums, pitch, count, residual, residual_step, out, step);
    const int n = channels_ == kLanes ? -1 : channels_;
    int64_t at = 0;
    for (; at + 4 <= count; at += 4, sums += 4 * pitch, out += 4 * step) {
      const IVec v = four<1, false>(sums, pitch, residual, residual_step);
      store_quarter<0>(out, v, n);
      store_quarter<1>(out + step, v, n);
      store_quarter<2>(out + 2 * step, v, n);
      store_quarter<3>(out + 3 * step, v, n);
      if (kResidual != Residual::none) residual += 4 * residual_step;
    }
    for (; at < count; ++at, sums += pitch, out += step) {
      store_quarter<0>(out, four<1, false>(sums, 0, residual, 0), n);
      if (kResidual != Residual::none) residual += residual_step;
    }
  }

 private:
  static constexpr bool kPlain = std::is_same_v<Act, PlainSteps>;
  static constexpr bool kInSteps = kPlain || std::is_same_v<Act, expr::Identity>;
  static constexpr bool kNearly = kIsNear<Act>;

#ifdef __AVX512F__
  TENON_INLINE IVec as_int16(const IVec (&sums)[2], const uint8_t* residual) const {
    Vec x[2];
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) {
      if constexpr (kInSteps) {
        x[i] = fused(to_float(sums[i]), multiplier_[i], bias_[i]);
        if constexpr (kResidual == Residual::before)
          x[i] = fused(to_float(widen_u8(residual + i * kLanes)), residual_scale_[i], x[i]);
        continue;
      }
      x[i] = add(mul(to_float(sums[i]), multiplier_[i]), bias_[i]);
      if constexpr (kResidual == Residual::before) {
        const IVec r = isub(widen_u8(residual + i * kLanes), residual_zero_);
        x[i] = add(x[i], mul(to_float(r), residual_scale_[i]));
      }
      if constexpr (!kInSteps) x[i] = mul(activate<Act>(x[i], epilogue_, slopes_[i]), inverse_[i]);
    }
    return int16_of(to_int(x[0]), to_int(x[1]));
  }
#endif

  TENON_INLINE IVec int16_of(IVec a, IVec b) const { return kPlain ? pack_int16(a, b) : to_int16(a, b, zero_point_); }

  // run() of more than one vector of channels; kWhole: of two whole ones.
  template <bool kWhole>
  TENON_INLINE void halves(const int32_t* sums, int64_t pitch, int64_t count, const uint8_t* residual,
                           int64_t residual_step, uint8_t* out, int64_t step) const {
    const int n = kWhole ? -1 : channels_;
    int64_t at = 0;
    for (; at + 2 <= count; at += 2, sums += 2 * pitch, out += 2 * step) {
      const IVec v = four<2, kWhole>(sums, pitch, residual, residual_step);
      store_half<0>(out, v, n);
      store_half<1>(out + step, v, n);
      if (kResidual != Residual::none) residual += 2 * residual_step;
    }
    if (at < count) store_half<0>(out, four<2, kWhole>(sums, 0, residual, 0), n);
  }

  // Four vectors of bytes: kEach of a row of sums, `pitch` apart. kWhole: all of their channels count.
  template <int kEach, bool kWhole>
  TENON_INLINE IVec four(const int32_t* sums, int64_t pitch, const uint8_t* residual, int64_t residual_step) const {
    constexpr int kRows = kTogether / kEach;
    alignas(64) uint8_t copies[kRows][kBlock];
    Vec x[kTogether], r[kTogether];
    IVec n[kTogether];
#define TENON_EACH TENON_UNROLL for (int i = 0; i < kTogether; ++i)
    TENON_EACH x[i] = to_float(iload(sums + i / kEach * pitch + i % kEach * kLanes));
    if constexpr (kResidual != Residual::none) {
      const bool part = !kWhole && channels_ < kEach * kLanes;
      TENON_UNROLL
      for (int row = 0; part && row < kRows; ++row)
        load_bytes_n(copies[row], residual + row * residual_step, channels_);
      TENON_EACH n[i] =
          widen_u8((part ? copies[i / kEach] : residual + i / kEach * residual_step) + i % kEach * kLanes);
      TENON_EACH r[i] = to_float(kInSteps ? n[i] : isub(n[i], residual_zero_));
    }
    if constexpr (kInSteps) {
      round_steps<kResidual != Residual::none, kEach>(
          x, r, multiplier_, bias_, residual_scale_, certain_steps_, [](Vec v) { return v; }, n);
    } else {
      finish_reals<kEach>(x, r, n);
    }
#undef TENON_EACH
    const IVec v = to_bytes(int16_of(n[0], n[1]), int16_of(n[2], n[3]));
    return kPlain ? v : clamp_bytes(v, low_, high_);
  }

  // From sums, and what is added, to whole numbers of steps.
  template <int kEach>
  TENON_INLINE void finish_reals(Vec (&x)[kTogether], Vec (&r)[kTogether], IVec (&n)[kTogether]) const {
    Vec y[kTogether];
#define TENON_EACH TENON_UNROLL for (int i = 0; i < kTogether; ++i)
    TENON_EACH x[i] = mul(x[i], multiplier_[i % kEach]);
    TENON_EACH x[i] = add(x[i], bias_[i % kEach]);
    if constexpr (kResidual != Residual::none) TENON_EACH r[i] = mul(r[i], residual_scale_[i % kEach]);
    if constexpr (kResidual == Residual::before) TENON_EACH x[i] = add(x[i], r[i]);
    if constexpr (kNearly) {
      constexpr bool kFactor = std::is_same_v<Act, expr::Sigmoid> || std::is_same_v<Act, expr::Tanh>;
      TENON_EACH y[i] = kFactor ? inverse_[i % kEach] : mul(x[i], inverse_[i % kEach]);
      near_activation<Act>(x, epilogue_.alpha, y);
      if constexpr (kResidual == Residual::after) TENON_EACH y[i] = fused(r[i], inverse_[i % kEach], y[i]);
      if (rounds_alike(y, certain_, n)) return;
    }
    TENON_EACH x[i] = activate<Act>(x[i], epilogue_, slopes_[i % kEach]);
    if constexpr (kResidual == Residual::after) TENON_EACH x[i] = add(x[i], r[i]);
    TENON_EACH x[i] = mul(x[i], inverse_[i % kEach]);
    TENON_EACH n[i] = to_int(x[i]);
#undef TENON_EACH
  }

  Epilogue epilogue_;
  int channels_;
  IVec residual_zero_, zero_point_;
  Vec multiplier_[2], bias_[2], inverse_[2], residual_scale_[2], slopes_[2];
  IVec low_, high_;
  Vec certain_;
  float certain_steps_;
#ifdef __AVX512F__
  IVec order_ = order_of_bytes();
#endif
};

// The same for outputs of f32 without a residual: factors of a block of channels in registers.
template <class Act>
class RealRows {
 public:
  TENON_INLINE RealRows(const Int8Output& o, const BlockOfChannels& block)
      : epilogue_(o.epilogue), channels_(block.channels) {
    const Vec scale = set1(o.dynamic ? o.dynamic->scale : 1);
    const IVec zero = iset1(o.dynamic ? o.dynamic->zero : 0);
    TENON_UNROLL
    for (int v = 0; v < 2; ++v) {
      const int64_t at = block.at + v * kLanes;
      multiplier_[v] = mul(scale, load(o.multiplier + at));
      bias_[v] = load(o.bias + at);
      if (kBySlopes<Act>) slopes_[v] = load(o.epilogue.slopes + at);
      before_[v] = o.weight_sums ? imul(zero, iload(o.weight_sums + at)) : izero();
    }
  }

  TENON_INLINE void run(const int32_t* sums, int64_t pitch, int64_t count, float* out, int64_t step) const {
    const int second = channels_ - kLanes;
    for (int64_t i = 0; i < count; ++i, sums += pitch, out += step) {
      if (second < 0) {
        store_n(out, real(sums, 0), channels_);
        continue;
      }
      store(out, real(sums, 0));
      if (second == kLanes) store(out + kLanes, real(sums, 1));
      else if (second > 0) store_n(out + kLanes, real(sums, 1), second);
    }
  }

 private:
  TENON_INLINE Vec real(const int32_t* sums, int v) const {
    const Vec sum = to_float(isub(iload(sums + v * kLanes), before_[v]));
    return activate<Act>(add(mul(sum, multiplier_[v]), bias_[v]), epilogue_, slopes_[v]);
  }

  Epilogue epilogue_;
  int channels_;
  Vec multiplier_[2], bias_[2], slopes_[2];
  IVec before_[2];
};

constexpr size_t kReadyBytes = 1152;

// What is the same for all places of a block of channels is prepared once, in kReadyBytes on a line of 64; then run()
// finishes `count` places at a time whose sums are `pitch` apart.
struct Finish {
  void (*prepare)(const Int8Output&, const BlockOfChannels&, std::byte* ready);
  void (*run)(const Int8Output&, const std::byte* ready, const Job&, const int32_t* sums, int64_t pitch, int64_t count,
              Outputs&);
};

template <class Rows>
void prepare_rows(const Int8Output& o, const BlockOfChannels& block, std::byte* ready) {
  static_assert(sizeof(Rows) <= kReadyBytes);
  *reinterpret_cast<Rows*>(ready) = Rows(o, block);
}

template <class Act, Residual kResidual>
void finish_bytes(const Int8Output&, const std::byte* ready, const Job& job, const int32_t* sums, int64_t pitch,
                  int64_t count, Outputs& outputs) {
  const auto rows = *reinterpret_cast<const ByteRows<Act, kResidual>*>(ready);  // in registers
  const ConvShape& s = outputs.shape();
  outputs.take(
      count, [&](int64_t at, int64_t n, int64_t out, int64_t residual) __attribute__((always_inline)) {
        rows.run(sums + at * pitch, pitch, n, job.residual + residual, s.res_pixel,
                 reinterpret_cast<uint8_t*>(job.out) + out, s.out_pixel);
      });
}

template <class Act>
void finish_reals(const Int8Output&, const std::byte* ready, const Job& job, const int32_t* sums, int64_t pitch,
                  int64_t count, Outputs& outputs) {
  const auto rows = *reinterpret_cast<const RealRows<Act>*>(ready);
  const int64_t step = outputs.shape().out_pixel;
  outputs.take(
      count, [&](int64_t at, int64_t n, int64_t out, int64_t) __attribute__((always_inline)) {
        rows.run(sums + at * pitch, pitch, n, reinterpret_cast<float*>(job.out) + out, step);
      });
}

inline void prepare_nothing(const Int8Output&, const BlockOfChannels&, std::byte*) {}

template <class Act>
void finish_any(const Int8Output& o, const std::byte*, const Job& job, const int32_t* sums, int64_t pitch,
                int64_t count, Outputs& outputs) {
  const Finisher<Act> finisher(o);
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
  Finish finish{};
  const Residual residual = o.epilogue.residual;
  const auto rows = [&]<class Act, Residual kResidual>() {
    finish = {prepare_rows<ByteRows<Act, kResidual>>, finish_bytes<Act, kResidual>};
  };
  const auto choose = [&]<class Act>() {
    if (residual == Residual::none) rows.template operator()<Act, Residual::none>();
    else if (residual == Residual::before) rows.template operator()<Act, Residual::before>();
    else rows.template operator()<Act, Residual::after>();
  };
  const bool bytes = o.inverse_scale && o.bounded;
  if (bytes && are_plain_steps(o)) choose.template operator()<PlainSteps>();
  else if (bytes && o.in_steps) choose.template operator()<expr::Identity>();
  else if (bytes) with_activation(o.epilogue.act, choose);
  else if (!o.inverse_scale && !o.sums && residual == Residual::none)
    with_activation(o.epilogue.act, [&]<class Act>() { finish = {prepare_rows<RealRows<Act>>, finish_reals<Act>}; });
  else with_activation(o.epilogue.act, [&]<class Act>() { finish = {prepare_nothing, finish_any<Act>}; });
  return finish;
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE

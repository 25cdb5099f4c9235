// From exact sums to bytes or floats; see Int8Output.
#pragma once

#include "backends/cpu/kernels/int8.h"

#include "backends/cpu/kernels/simd_int8.h"

#include "backends/cpu/kernels/epilogue.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// kBlock output channels, of which the first `channels` count; the lists have whole blocks.
struct BlockOfChannels {
  const float *multiplier, *bias;
  int channels;
};

// The float steps of one vector of sums.
template <Activation kAct>
TENON_INLINE Vec finish_vector(IVec sums, const BlockOfChannels& block, const Int8Output& o, int c,
                               const uint8_t* residual) {
  Vec x = add(mul(to_float(sums), load(block.multiplier + c)), load(block.bias + c));
  Vec r = zero();
  if (o.epilogue.residual != Residual::none)
    r = mul(to_float(isub(widen_u8(residual + c), iset1(o.residual_zero))), set1(o.residual_scale));
  if (o.epilogue.residual == Residual::before) x = add(x, r);
  x = activate<kAct>(x, o.epilogue);
  if (o.epilogue.residual == Residual::after) x = add(x, r);
  return x;
}

template <Activation kAct>
TENON_INLINE void finish_pixel8(const int32_t* sums, const BlockOfChannels& block, const Int8Output& o,
                                const uint8_t* residual, std::byte* out) {
  alignas(64) uint8_t copy[kBlock + 64];
  if (residual && block.channels < kBlock) {
    __builtin_memcpy(copy, residual, block.channels);
    residual = copy;
  }
  if (o.inverse_scale == 0) {
    for (int c = 0; c < block.channels; c += kLanes) {
      const Vec x = finish_vector<kAct>(iload(sums + c), block, o, c, residual);
      float* to = reinterpret_cast<float*>(out) + c;
      if (block.channels - c >= kLanes) store(to, x);
      else store_n(to, x, block.channels - c);
    }
    return;
  }
  const Vec inverse = set1(o.inverse_scale), low = set1(static_cast<float>(-o.out_zero)),
            high = set1(static_cast<float>(255 - o.out_zero));
  const IVec zero_point = iset1(o.out_zero);
  alignas(64) uint8_t bytes[kBlock];
  auto* to = block.channels == kBlock ? reinterpret_cast<uint8_t*>(out) : bytes;
  TENON_UNROLL
  for (int c = 0; c < kBlock; c += kLanes) {
    const Vec x = finish_vector<kAct>(iload(sums + c), block, o, c, residual);
    narrow_u8(to + c, iadd(to_int(min(high, max(low, mul(x, inverse)))), zero_point));
  }
  if (to == bytes) __builtin_memcpy(out, bytes, block.channels);
}

}  // namespace

// In int8_depthwise_isa.cpp.
void run_depthwise8(const Int8DepthwisePlan& plan, const uint8_t* in, const uint8_t* residual, void* out,
                    const Worker& worker);

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE

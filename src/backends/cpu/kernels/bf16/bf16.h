// SPDX-License-Identifier: Apache-2.0
// Convolutions of f32 whose inputs and weights are rounded to bfloat16 and whose products are added up as f32.
#pragma once

#include "backends/cpu/kernels/tile_plan.h"

namespace tenon::cpu {

struct Bf16Plan : TilePlan {
  Epilogue epilogue;
  const float* bias;  // [group][whole blocks]
};

namespace amx {
void run_bf16_tiles(const Bf16Plan& plan, const float* in, const float* residual, float* out, const Worker& worker);
}  // namespace amx
namespace avx512_bf16 {
void run_bf16_dots(const Bf16Plan& plan, const float* in, const float* residual, float* out, const Worker& worker);
}  // namespace avx512_bf16

}  // namespace tenon::cpu

// SPDX-License-Identifier: Apache-2.0
// What int8_tiles.cpp and int8_tiles_isa.cpp share.
#pragma once

#include "backends/cpu/kernels/int8/int8.h"
#include "backends/cpu/kernels/tile_plan.h"

namespace tenon::cpu {

struct Int8TilePlan : TilePlan {
  Int8Output output;
  const int32_t* start;  // sums of nothing but a zero point of one, negated; [group][whole blocks]
  int32_t in_zero;
};

namespace amx {
void run_int8_tiles(const Int8TilePlan& plan, const uint8_t* in, const uint8_t* residual, void* out,
                    const Worker& worker);
}  // namespace amx

}  // namespace tenon::cpu

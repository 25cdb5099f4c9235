// SPDX-License-Identifier: Apache-2.0
// The tactics of each kernel family, collected by tactics.cpp.
#pragma once

#include "backends/cpu/kernels/conv.h"

namespace tenon::cpu {

/// What make<isa>() gives for the vectors of an instruction set.
template <class Make>
ConvTactic by_vectors(Isa isa, const Make& make) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return make.template operator()<Isa::avx512>();
    case Isa::avx2: return make.template operator()<Isa::avx2>();
    case Isa::fused: return make.template operator()<Isa::fused>();
    default: return make.template operator()<Isa::portable>();
  }
}

/// ConvTactic::form of those that take channels in slices: weights lie in their order.
inline int64_t form_of_slices(const ConvShape& shape) { return shape.slices - 1; }

ConvTactic direct_tactic(Isa isa);
ConvTactic gemv_tactic(Isa isa);
ConvTactic gemv_f16_tactic(Isa isa);   // of weights that f16 has, and
ConvTactic gemv_bf16_tactic(Isa isa);  // bf16
ConvTactic stem_tactic(Isa isa);
ConvTactic winograd_frames_tactic(Isa isa);  // of first layers over frames
ConvTactic bf16_dots_tactic();   // where has_bf16_dot
ConvTactic bf16_tiles_tactic();  // for Isa::amx
ConvTactic depthwise_tactic(Isa isa);
ConvTactic depthwise_rows_tactic(Isa isa);
ConvTactic winograd4_tactic(Isa isa);
ConvTactic winograd2_tactic(Isa isa);
ConvTactic winograd_5x5_tactic(Isa isa);
ConvTactic winograd4_taps_tactic(Isa isa);  // of weights packed as the direct kernel's
ConvTactic winograd2_taps_tactic(Isa isa);
ConvTactic strassen_tactic(Isa isa);  // of weights packed as the direct kernel's

}  // namespace tenon::cpu

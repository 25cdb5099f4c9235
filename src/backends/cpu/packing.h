// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "backends/cpu/conv.h"
#include "backends/cpu/kernels/int8/packed_bytes.h"
#include "backends/cpu/weights_f32.h"
#include "backends/weight_cache.h"
#include "base/pages.h"

namespace tenon::cpu {

/// Weights as a tactic packs them: of one engine they are held once, whatever the sizes of images and the threads.
using Packed = std::shared_ptr<const PackedBytes>;

inline float* floats_of(const PackedBytes& packed) { return reinterpret_cast<float*>(packed.data()); }

/// The problem's constant input 1. `weights` gives it in the order [output][input][row][column]; it is called where
/// nobody has packed it yet.
template <class Weights>
Packed packed_weights(const backends::Problem& problem, const ConvTactic& tactic, const ConvShape& s,
                      const Weights& weights) {
  const size_t bytes = tactic.packed_floats(s) * sizeof(float);
  const Tensor& constant = problem.inputs[1].constant;
  const auto make = [&]() -> Packed {
    const auto packed = std::make_shared<const PackedBytes>(bytes);
    const Tensor given = weights();
    tactic.pack(s, given.template data<float>(), floats_of(*packed));
    release_pages(constant.data(), constant.bytes());
    return packed;
  };
  if (!problem.weights) return make();
  const auto number = [](auto pointer) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer)); };
  const auto rank = static_cast<int64_t>(problem.inputs[1].dims.rank());  // windows have 4 axes, matrices 2
  const bool is_turned = rank == 2 && problem.node->integer("transB", 0);
  return problem.weights->get({number(constant.data()), number(tactic.pack), s.in_c, s.out_c,
                               int64_t{s.kernel_h} << 32 | s.kernel_w, s.groups, tactic.form ? tactic.form(s) : 0, rank,
                               is_turned, static_cast<int64_t>(bytes)},
                              make);
}

}  // namespace tenon::cpu

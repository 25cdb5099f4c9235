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

/// How weights that begin at `from` are packed. `order` is that of the constant.
inline backends::WeightCache::Form form_of(const void* from, int64_t order, const ConvTactic& tactic,
                                           const ConvShape& s) {
  const size_t bytes = tactic.packed_floats(s) * sizeof(float);
  const auto number = [](auto pointer) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer)); };
  return {{number(from), number(tactic.pack), s.in_c, s.out_c, int64_t{s.kernel_h} << 32 | s.kernel_w, s.groups,
           tactic.form ? tactic.form(s) : 0, order, static_cast<int64_t>(bytes)},
          bytes};
}

/// Weights that begin at `from`, in memory of a constant. `weights` gives them in the order
/// [output][input][row][column]; it is called where nobody has packed them yet.
template <class Weights>
Packed packed_from(const void* from, int64_t order, const backends::Problem& problem, const ConvTactic& tactic,
                   const ConvShape& s, const Weights& weights) {
  const backends::WeightCache::Form form = form_of(from, order, tactic, s);
  const auto make = [&]() -> Packed {
    const auto packed = std::make_shared<const PackedBytes>(form.bytes);
    const Tensor given = weights();
    tactic.pack(s, given.template data<float>(), floats_of(*packed));
    return packed;
  };
  return problem.weights ? problem.weights->get(form.key, make) : make();
}

/// The first of more taps of a convolution, each a constant of its own.
inline constexpr size_t taps_at = 4;

/// The order of the problem's constant input 1, and which constants are packed with it.
inline int64_t order_of(const backends::Problem& problem) {
  const auto rank = static_cast<int64_t>(problem.inputs[1].dims.rank());  // windows have 4 axes, matrices 2
  const bool is_turned = rank == 2 && problem.node->integer("transB", 0);
  uint64_t order = static_cast<uint64_t>(2 * rank + is_turned);
  for (size_t at = taps_at; at < problem.inputs.size(); ++at)
    order = order * 0x9e3779b97f4a7c15 + reinterpret_cast<uintptr_t>(problem.inputs[at].constant.data());
  return static_cast<int64_t>(order);
}

/// The problem's constant input 1, whose pages are given back.
template <class Weights>
Packed packed_weights(const backends::Problem& problem, const ConvTactic& tactic, const ConvShape& s,
                      const Weights& weights) {
  const Tensor& constant = problem.inputs[1].constant;
  bool made = false;
  Packed packed = packed_from(constant.data(), order_of(problem), problem, tactic, s, [&] {
    made = true;
    return weights();
  });
  if (made) release_pages(constant.data(), constant.bytes());
  return packed;
}

}  // namespace tenon::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "backends/cuda/runtime/kernel.h"
#include "ops/op.h"

/// What the kernels of reductions share.
namespace tenon::cuda::reduce {

/// The axes that go, in order; none where the node computes them, or has none and does nothing.
std::optional<std::vector<int64_t>> axes_of(const Problem& problem);

/// Why no kernel for rows of floats takes it.
Reason refuses(const Problem& problem, const Properties& properties);

/// As reduce.cu numbers them.
int kind_of(ops::Reduction reduction);

/// A tensor as it is reduced, along length.
struct Extent {
  int64_t outer, length, inner;
};
/// Kernels of reduce.cu for it, with no source yet; `vectors`: neighbours of inner that a lane may take at once.
std::vector<Tactic> tactics_for(const Extent& extent, const std::vector<int>& vectors, const Properties& properties);
/// The macros of one that gives this type, but TX.
std::vector<std::string> defines_of(const Tactic& tactic, const Extent& extent, ops::Reduction reduction, DType y);
Grid grid_of(const Tactic& tactic, const Extent& extent);

}  // namespace tenon::cuda::reduce

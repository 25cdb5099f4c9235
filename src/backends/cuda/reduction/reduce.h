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

}  // namespace tenon::cuda::reduce

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/attention/side_params.h"
#include "backends/cuda/runtime/kernel.h"

/// What the kernels of DotAttention share.
namespace tenon::cuda {

Side side_of(const Operand& operand);
/// How many heads of queries have keys and values in common.
int heads_for_one(const Problem& problem);
/// Whether rows come in chunks of so many elements, each aligned.
bool in_chunks(const Operand& operand, int64_t chunk);

bool has_mask(const Problem& problem);
/// After how many of the first axis a mask repeats.
int masks_of(const Problem& problem);
/// nullptr, or why no kernel takes operands of these sizes and types.
Reason refuses_attention(const Problem& problem);

}  // namespace tenon::cuda

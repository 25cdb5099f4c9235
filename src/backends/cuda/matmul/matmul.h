// SPDX-License-Identifier: Apache-2.0
// What the kernels of products of two values share.
#pragma once
#include "backends/cuda/matmul/matmul_params.h"
#include "backends/cuda/runtime/kernel.h"

namespace tenon::cuda::matmul {

inline bool has_operand(const Problem& problem, size_t at) { return at < problem.inputs.size() && problem.inputs[at]; }
/// Whether the bias is one number for each row of the result; else it is one for each column.
bool bias_is_by_row(const Problem& problem);
/// Sizes and strides of a MatMul's operands, the batch on up to three axes; the reason where they are no such product
/// of f32, f16 or bf16.
Reason shape_of(const Problem& problem, MatmulParams& params);
/// Whether product_step() has too many of the batch or rows for a grid.
Reason exceeds_grid(const MatmulParams& params);
/// A step whose blocks make `rows` x `columns` results each, for each of the batch.
std::unique_ptr<Step> product_step(const Problem& problem, Device& device, Function function, int rows, int columns,
                                   int threads, int shared_bytes = 0);
/// The same with sizes and a grid of its own; `turned`: the operands are exchanged.
std::unique_ptr<Step> product_step(const Problem& problem, Device& device, Function function,
                                   const MatmulParams& params, const Grid& grid, bool turned = false);

}  // namespace tenon::cuda::matmul

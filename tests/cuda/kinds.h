// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "../ops/case.h"
#include "backends/cuda/runtime/kernel.h"

/// The types in which GPU kernels run the cases of tests/ops and of this folder.
namespace tenon::tests {

enum class Kind { f32, tf32, f16, f16_to_f32, f32_to_f16, bf16 };

/// All cases; gpu_kernels says what a GPU of compute capability 9.0 takes them with, where operands are dense:
///   [kind,…:]kernel,…    these kernels take it, in all kinds or in those
///   [kind,…:]none        no kernel does
/// Names have underscores for blanks. Without the word none something must take it in each kind.
std::vector<Case> all_cases();
/// All cases with what the reference gives; made once.
const std::vector<std::pair<Case, std::vector<Tensor>>>& cases_with_outputs();
const char* name(Kind kind);
bool is_product(const Case& one);
/// Whether an operand is weights that kernels in 16 bits round.
bool is_weights(const Case& one, size_t operand);
/// Those in which it differs: products of rounded operands alone in tf32 or from f16 to f32, convolutions of images
/// alone from f32 to f16, what has no float in f32 alone.
std::vector<Kind> kinds_of(const Case& one);
bool is_16_bit(Kind kind);
/// The case's problem and operands, those that are not constant as f16 or bf16 where the kind has them so. `outputs`
/// are of its sizes.
backends::Problem problem_of(const Case& one, const std::vector<Tensor>& outputs, Kind kind, Gaps gaps,
                             std::vector<Tensor>& operands);
/// What is wrong with the kernels that are offered for a problem of dense operands, by what the case says; empty:
/// nothing, or the GPU is older than 8.0.
std::string fault(const Case& one, Kind kind, const backends::Problem& problem, const cuda::Properties& gpu);

}  // namespace tenon::tests

#pragma once
#include "../ops/case.h"

/// The types in which GPU kernels run the cases of tests/ops and of this folder.
namespace tenon::tests {

enum class Kind { f32, tf32, f16, f16_to_f32, f32_to_f16, bf16 };

std::vector<Case> all_cases();
bool is_product(const Case& one);
/// Whether an operand is weights that kernels in 16 bits round.
bool is_weights(const Case& one, size_t operand);
/// Those in which it may run; products of rounded operands alone in tf32 or from f16 to f32, convolutions of pictures
/// alone from f32 to f16.
std::vector<Kind> kinds_of(const Case& one);
bool is_narrow(Kind kind);
/// The case's problem and operands, those that are not constant as f16 or bf16 where the kind has them so. `outputs`
/// are of its sizes.
backends::Problem problem_of(const Case& one, const std::vector<Tensor>& outputs, Kind kind, bool views,
                             std::vector<Tensor>& operands);

}  // namespace tenon::tests

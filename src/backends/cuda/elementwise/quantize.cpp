// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/elementwise/map.h"
#include "ops/op.h"

namespace tenon::cuda::quantize {
namespace {

bool quantises(const Problem& problem) { return ops::has_trait(problem.node->op, ops::Trait::quantises); }
bool is_byte(DType type) { return type == DType::u8 || type == DType::i8 || type == DType::f8e4m3fn; }

/// Data, scale and zero point; one scale, or one for each entry of an axis.
Reason map_of(const Problem& problem, Map& map) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const Operand& bytes = quantises(problem) ? y : x;
  const Operand& reals = quantises(problem) ? x : y;
  if (!is_byte(bytes.dtype) || !is_real(reals.dtype))
    return {Reason::element_type, "elements", "a float on one side and a byte on the other"};
  if (problem.node->integer("block_size", 0) != 0) return {Reason::scales, "one, or one for each entry of an axis"};
  const auto rank = static_cast<int64_t>(x.dims.rank());
  const int64_t given = problem.node->integer("axis", 1), axis = given < 0 ? given + rank : given;
  map.dims = y.dims;
  const auto add = [&](const Operand& operand, const Dims& strides) {
    map.strides.push_back(strides);
    map.types.push_back(type_name(operand.dtype));
    map.sizes.push_back(static_cast<int>(size_of(operand.dtype)));
    map.aligned.push_back(operand.aligned);
  };
  add(x, x.strides);
  for (size_t at = 1; at < problem.inputs.size() && problem.inputs[at]; ++at) {
    const Operand& operand = problem.inputs[at];
    if (operand.dtype != (at == 1 ? DType::f32 : bytes.dtype))
      return {Reason::element_type, "scale and zero point", "f32 and the integers"};
    Dims strides = y.dims;
    for (int64_t& stride : strides) stride = 0;
    if (operand.dims.elements() != 1) {
      if (operand.dims.rank() != 1 || !operand.dense() || axis < 0 || axis >= rank)
        return {Reason::scales, "one, or one for each entry of an axis"};
      strides[static_cast<size_t>(axis)] = 1;
    }
    add(operand, strides);
  }
  add(y, y.strides);
  // The zero point of floats is 0.
  const bool zero = map.strides.size() > 3 && bytes.dtype != DType::f8e4m3fn;
  if (quantises(problem) && bytes.dtype == DType::f8e4m3fn) {
    map.body = "    r = __fdiv_rn(v0, v1);\n";
  } else if (quantises(problem)) {
    const bool sign = y.dtype == DType::i8;
    map.body = "    const float t = rintf(__fdiv_rn(v0, v1))" + std::string(zero ? " + v2" : "") + ";\n" +
               "    r = v0 != v0 ? " + (zero ? "v2" : "0.f") + " : fminf(fmaxf(t, " + (sign ? "-128.f" : "0.f") +
               "), " + (sign ? "127.f" : "255.f") + ");\n";
  } else {
    map.body = std::string("    r = __fmul_rn(v0") + (zero ? " - v2" : "") + ", v1);\n";
  }
  return map.simplify() ? Reason() : Reason(Reason::too_many, most_map_axes, "axes");
}

const KernelRegistrar quantize(map_kernel<map_of>("QuantizeLinear"));
const KernelRegistrar dequantize(map_kernel<map_of>("DequantizeLinear"));

}  // namespace
}  // namespace tenon::cuda::quantize

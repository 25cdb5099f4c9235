// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/elementwise/map.h"

namespace tenon::cuda::element_ops {
namespace {

/// Ops on elements of any type, as maps: comparisons, truths, choices, conversions, arithmetic of integers.

/// A CUDA type that computes as the element type does; truths are bytes of 0 and 1. Empty where there is none.
std::string number_type(DType type) {
  switch (type) {
    case DType::boolean: return "u8";
    case DType::f64: return "double";
    default: return type == DType::f8e4m3fn ? "" : type_name(type);
  }
}

bool is_whole(DType type) { return type == DType::i64 || type == DType::i32 || type == DType::u8 || type == DType::i8; }

/// The operand as what operators take: a float where it is one.
std::string read(const Operand& operand, const std::string& name) {
  return is_real(operand.dtype) ? "f32_of(" + name + ")" : name;
}

/// A value as an element of the result: of_f32 where that is a float.
std::string written(const Operand& y, const std::string& value) {
  return is_real(y.dtype) ? "of_f32<" + number_type(y.dtype) + ">(" + value + ")"
                          : "(" + number_type(y.dtype) + ")(" + value + ")";
}

/// Text of CUDA that is a parameter of a function.
template <size_t bytes>
struct Text {
  constexpr Text(const char (&text)[bytes]) { std::copy_n(text, bytes, data); }
  char data[bytes];
};

bool same_types(const Problem& problem, size_t first, size_t count) {
  for (size_t at = first; at < count; ++at)
    if (problem.inputs[at].dtype != problem.inputs[first].dtype) return false;
  return true;
}

/// The statements that set "r" of an op; else why there are none.
using BodyOf = Reason (*)(const Problem&, std::string& body);

template <Text comparison>
Reason comparison_of(const Problem& problem, std::string& body) {
  const Operand &a = problem.inputs[0], &b = problem.inputs[1];
  if (a.dtype != b.dtype && !(is_real(a.dtype) && is_real(b.dtype))) return Reason::mixed_types;
  body = "    r = " + read(a, "v0") + " " + comparison.data + " " + read(b, "v1") + ";\n";
  return {};
}

Reason is_nan_of(const Problem& problem, std::string& body) {
  const Operand& x = problem.inputs[0];
  if (!is_real(x.dtype)) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  body = "    r = " + read(x, "v0") + " != " + read(x, "v0") + ";\n";
  return {};
}

Reason choice_of(const Problem& problem, std::string& body) {
  const DType type = problem.outputs[0].dtype;
  if (problem.inputs[1].dtype != type || problem.inputs[2].dtype != type) return Reason::mixed_types;
  body = "    r = v0 ? v1 : v2;\n";
  return {};
}

Reason conversion_of(const Problem& problem, std::string& body) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (is_real(x.dtype) && is_real(y.dtype)) return Reason::other_kernel;
  if (x.dtype == DType::f64 && is_16_bit(y.dtype)) {  // to an odd f32 first, so that it is rounded once
    body =
        "    float a = __double2float_rz(v0);\n    if (a != v0) a = __uint_as_float(__float_as_uint(a) | 1);\n"
        "    r = " +
        written(y, "a") + ";\n";
    return {};
  }
  if (y.dtype == DType::boolean) body = "    r = " + read(x, "v0") + " != 0;\n";
  else if ((is_real(x.dtype) || x.dtype == DType::f64) && size_of(y.dtype) == 1)
    return {Reason::element_type, "elements", "types with a conversion"};
  else body = "    r = " + written(y, read(x, "v0")) + ";\n";
  return {};
}

Reason is_of_one_type(const Problem& problem) {
  const DType type = problem.inputs[0].dtype;
  const bool same = same_types(problem, 0, problem.inputs.size()) && type == problem.outputs[0].dtype;
  return same ? Reason() : Reason(Reason::mixed_types);
}
/// Whether operands and result are all truths or all integers.
Reason types_of(const Problem& problem) {
  if (const Reason reason = is_of_one_type(problem)) return reason;
  const DType type = problem.inputs[0].dtype;
  if (type != DType::boolean && !is_whole(type))
    return {Reason::element_type, "elements", "a type with this operation"};
  return {};
}

Reason remainder_of(const Problem& problem, std::string& body) {
  const DType type = problem.inputs[0].dtype;
  const bool real = is_real(type) && same_types(problem, 0, 2) && type == problem.outputs[0].dtype;
  if (real && problem.node->integer("fmod", 0)) {
    body = "    r = " + written(problem.outputs[0], "fmodf(f32_of(v0), f32_of(v1))") + ";\n";
    return {};
  }
  if (const Reason reason = types_of(problem)) return reason;
  if (!is_whole(type)) return {Reason::element_type, "elements", "a type with this operation"};
  body = "    const auto a = v0, b = v1;\n    const " + number_type(type) + " n = b == 0 || b == -1 ? 0 : a % b;\n";
  body += problem.node->integer("fmod", 0) ? "    r = n;\n" : "    r = n != 0 && (n < 0) != (b < 0) ? n + b : n;\n";
  return {};
}

/// Of truths or of integers: "a" and "b" are the operands in the formula.
template <bool of_truths, Text formula>
Reason arithmetic_of(const Problem& problem, std::string& body) {
  if (const Reason reason = types_of(problem)) return reason;
  if ((problem.inputs[0].dtype == DType::boolean) != of_truths)
    return {Reason::element_type, "elements", "a type with this operation"};
  const std::string b = problem.inputs.size() > 1 ? ", b = " + read(problem.inputs[1], "v1") : "";
  body = "    const auto a = " + read(problem.inputs[0], "v0") + b +
         ";\n    r = " + written(problem.outputs[0], formula.data) + ";\n";
  return {};
}

/// Of a float, "a".
template <Text formula>
Reason function_of(const Problem& problem, std::string& body) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!is_real(x.dtype) || x.dtype != y.dtype) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  body = "    const float a = f32_of(v0);\n    r = " + written(y, formula.data) + ";\n";
  return {};
}

/// Of integers; the bounds may be absent, but the lower one only where both are.
Reason clip_of(const Problem& problem, std::string& body) {
  if (const Reason reason = types_of(problem)) return reason;
  body = "    r = v0;\n";
  if (problem.inputs.size() > 1) body += "    if (r < v1) r = v1;\n";
  if (problem.inputs.size() > 2) body += "    if (r > v2) r = v2;\n";
  return {};
}

/// Of doubles: "a" and "b" are the operands in the formula.
template <Text formula>
Reason double_of(const Problem& problem, std::string& body) {
  if (const Reason reason = is_of_one_type(problem)) return reason;
  if (problem.inputs[0].dtype != DType::f64) return {Reason::element_type, "elements", "f64"};
  body = std::string("    const double a = v0, b = v1;\n    r = ") + formula.data + ";\n";
  return {};
}

template <BodyOf body_of>
Reason map_of(const Problem& problem, Map& map) {
  if (problem.inputs.size() > 3) return {Reason::too_many, 3, "operands"};
  for (const Operand& operand : problem.inputs)
    if (!operand) return {Reason::absent, "an operand"};
  if (const Reason reason = body_of(problem, map.body)) return reason;
  map.plain = true;
  map.dims = problem.outputs[0].dims;
  for (const auto* operands : {&problem.inputs, &problem.outputs})
    for (const Operand& operand : *operands) {
      const std::string type = number_type(operand.dtype);
      if (type.empty()) return {Reason::element_type, "elements", "a type with arithmetic"};
      map.add(operand, type);
    }
  return map.simplify() ? Reason() : Reason(Reason::too_many, most_map_axes, "axes");
}

struct Register {
  Register() {
    add<comparison_of<"==">>("Equal"), add<comparison_of<"<">>("Less"), add<comparison_of<"<=">>("LessOrEqual");
    add<comparison_of<">">>("Greater"), add<comparison_of<">=">>("GreaterOrEqual");
    add<arithmetic_of<true, "a & b">>("And"), add<arithmetic_of<true, "a | b">>("Or");
    add<arithmetic_of<true, "a ^ b">>("Xor"), add<arithmetic_of<true, "!a">>("Not");
    add<arithmetic_of<false, "a + b">>("Add"), add<arithmetic_of<false, "a - b">>("Sub");
    add<arithmetic_of<false, "a * b">>("Mul"), add<arithmetic_of<false, "0 - a">>("Neg");
    add<arithmetic_of<false, "a > b ? a : b">>("Max"), add<arithmetic_of<false, "a < b ? a : b">>("Min");
    add<arithmetic_of<false, "a < 0 ? 0 - a : a">>("Abs");
    add<arithmetic_of<false, "a & b">>("BitwiseAnd"), add<arithmetic_of<false, "a | b">>("BitwiseOr");
    add<arithmetic_of<false, "a ^ b">>("BitwiseXor"), add<arithmetic_of<false, "~a">>("BitwiseNot");
    add<function_of<"acosf(a)">>("Acos"), add<function_of<"asinf(a)">>("Asin"), add<function_of<"atanf(a)">>("Atan");
    add<function_of<"acoshf(a)">>("Acosh"), add<function_of<"asinhf(a)">>("Asinh");
    add<function_of<"atanhf(a)">>("Atanh"), add<function_of<"coshf(a)">>("Cosh"), add<function_of<"sinhf(a)">>("Sinh");
    add<function_of<"tanf(a)">>("Tan");
    // A quotient by 0, which has no meaning, is 0.
    add<arithmetic_of<false, "b == 0 ? 0 : b == -1 ? 0 - a : a / b">>("Div");
    add<double_of<"a + b">>("Add", "doubles"), add<double_of<"a - b">>("Sub", "doubles");
    add<double_of<"a * b">>("Mul", "doubles"), add<double_of<"a / b">>("Div", "doubles"), add<clip_of>("Clip");
    add<is_nan_of>("IsNaN"), add<choice_of>("Where"), add<conversion_of>("Cast"), add<remainder_of>("Mod");
  }
  template <BodyOf body_of>
  static void add(const std::string& op, const char* name = "numbers") {
    Kernel kernel = map_kernel<map_of<body_of>>(op);
    kernel.name = name;
    kernel.priority = 0;
    KernelRegistrar{kernel};
  }
};
const Register registered;

}  // namespace
}  // namespace tenon::cuda::element_ops

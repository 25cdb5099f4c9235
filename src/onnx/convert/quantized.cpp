// SPDX-License-Identifier: Apache-2.0
#include "onnx/parts.h"

/// Ops on bytes whose scales are inputs, as ONNX Runtime's quantiser writes them: each is spelt out as
/// DequantizeLinear, the op on numbers and QuantizeLinear.
/// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
namespace tenon::onnx::quantized {
namespace {

const Tensor* constant(NodeImport& node, size_t at) { return node.graph().constant(node.input(at)); }

/// A list of one number is a number, so that it is a scale of the whole tensor.
ir::ValueId flat(NodeImport& node, size_t at) {
  const Tensor* given = constant(node, at);
  return given && given->elements() == 1 && given->dims().rank() ? node.constant(given->reshaped({})) : node.input(at);
}

/// The numbers of three inputs from `at` on: bytes, scale, zero point (or without). `axis`: of the scales, if many.
ir::ValueId numbers(NodeImport& node, size_t at, int64_t axis = 1) {
  if (!node.has(at) || !node.has(at + 1)) node.fail("input " + std::to_string(at) + " or its scale is missing");
  std::vector<ir::ValueId> inputs{node.input(at), flat(node, at + 1)};
  if (node.has(at + 2)) inputs.push_back(flat(node, at + 2));
  return node.add("DequantizeLinear", inputs, {{"axis", axis}});
}

/// The node's output is `real` in bytes, with the scale and the zero point in inputs `at` and the next one. Without a
/// zero point they are of the type of input `like`.
void quantise(NodeImport& node, ir::ValueId real, size_t at, size_t like = 0) {
  if (!node.has(at)) node.fail("the scale of the output is missing");
  std::vector<ir::ValueId> inputs{real, flat(node, at)};
  if (node.has(at + 1)) inputs.push_back(flat(node, at + 1));
  else if (node.dtype(node.input(like)) == DType::i8) inputs.push_back(node.constant(Tensor(DType::i8, {})));
  node.op = "QuantizeLinear";
  node.inputs = std::move(inputs);
  node.attributes = {};
  node.emit();
}

void binary(NodeImport& node) {
  const std::string op = node.op == "com.microsoft:QLinearAdd" ? "Add" : "Mul";
  quantise(node, node.add(op, {numbers(node, 0), numbers(node, 3)}), 6);
}
TENON_IMPORT(binary, "com.microsoft:QLinearAdd", "com.microsoft:QLinearMul");

void activation(NodeImport& node) {
  const bool leaky = node.op == "com.microsoft:QLinearLeakyRelu";
  const ir::ValueId x = numbers(node, 0);
  quantise(node, leaky ? node.add("LeakyRelu", {x}, {{"alpha", node.real("alpha", 0.01f)}}) : node.add("Sigmoid", {x}),
           3);
}
TENON_IMPORT(activation, "com.microsoft:QLinearLeakyRelu", "com.microsoft:QLinearSigmoid");

void softmax(NodeImport& node) {
  const int64_t axis = node.integer("axis", -1);
  const auto rank = node.rank(node.input(0));
  const bool last = axis == -1 || (rank && axis == static_cast<int64_t>(*rank) - 1);
  const ir::ValueId x = numbers(node, 0);
  if (last || node.integer("opset", 13) >= 13)
    return quantise(node, node.add("Softmax", {x}, {{"axis", axis}}), 3);
  // Up to opset 12 the axis cuts the tensor into a matrix, whose rows are normalised.
  const ir::ValueId rows = node.add("Softmax", {node.add("Flatten", {x}, {{"axis", axis}})}, {{"axis", int64_t{1}}});
  quantise(node, node.add("Reshape", {rows, node.add("Shape", {x})}, {{"allowzero", int64_t{1}}}), 3);
}
TENON_IMPORT(softmax, "com.microsoft:QLinearSoftmax");

/// A pool of bytes whose channels may lie last.
void pool(NodeImport& node) {
  const bool global = node.op == "com.microsoft:QLinearGlobalAveragePool", last = node.integer("channels_last", 0);
  node.drop({"channels_last"});
  const auto known = node.rank(node.input(0));
  const size_t rank = known ? *known : node.integer_list("kernel_shape").size() + 2;
  if (last && rank == 2) return node.unsupported("channels that lie last in a tensor of unknown rank");
  std::vector<int64_t> to{0, static_cast<int64_t>(rank) - 1}, back{0};
  for (int64_t axis = 1; axis + 1 < static_cast<int64_t>(rank); ++axis) to.push_back(axis), back.push_back(axis + 1);
  back.push_back(1);
  ir::ValueId x = numbers(node, 0);
  if (last) x = node.add("Transpose", {x}, {{"perm", to}});
  x = node.add(global ? "GlobalAveragePool" : "AveragePool", {x}, node.attributes);
  if (last) x = node.add("Transpose", {x}, {{"perm", back}});
  quantise(node, x, 3);
}
TENON_IMPORT(pool, "com.microsoft:QLinearAveragePool", "com.microsoft:QLinearGlobalAveragePool");

void mean(NodeImport& node) {
  std::vector<ir::ValueId> inputs{numbers(node, 0)};
  if (node.has_attribute("axes")) inputs.push_back(node.integers(node.integer_list("axes")));
  quantise(node, node.add("ReduceMean", inputs, {{"keepdims", node.integer("keepdims", 1)}}), 3);
}
TENON_IMPORT(mean, "com.microsoft:QLinearReduceMean");

void concat(NodeImport& node) {
  std::vector<ir::ValueId> parts;
  for (size_t at = 2; at < node.inputs.size(); at += 3) parts.push_back(numbers(node, at));
  quantise(node, node.add("Concat", parts, {{"axis", node.integer("axis", 1)}}), 0, 2);
}
TENON_IMPORT(concat, "com.microsoft:QLinearConcat");

void where(NodeImport& node) {
  quantise(node, node.add("Where", {node.input(0), numbers(node, 1), numbers(node, 4)}), 7, 1);
}
TENON_IMPORT(where, "com.microsoft:QLinearWhere");

bool are_known(NodeImport& node, std::initializer_list<size_t> inputs) {
  for (size_t at : inputs)
    if (node.has(at) && !constant(node, at)) return false;
  return true;
}

/// A bias of i32 counts in steps of the product of two scales, the second with one for each entry or for all.
ir::ValueId bias_numbers(NodeImport& node, size_t at, size_t x_scale, size_t w_scale, double factor) {
  const Tensor &counts = *constant(node, at), &x = *constant(node, x_scale), &w = *constant(node, w_scale);
  if (counts.dtype() != DType::i32) node.fail("the bias is not of i32");
  if (x.dtype() != DType::f32 || w.dtype() != DType::f32) node.fail("a scale is not of f32");
  if (x.elements() != 1) node.fail("the scale of the input is not one number");
  const int64_t entries = w.elements();
  if (entries < 1 || (entries > 1 && counts.dims().back() != entries)) node.fail("the bias does not fit the scales");
  Tensor real(DType::f32, counts.dims());
  for (int64_t i = 0; i < counts.elements(); ++i)
    real.data<float>()[i] = static_cast<float>(factor * counts.data<int32_t>()[i] * *x.data<float>() *
                                               w.data<float>()[entries == 1 ? 0 : i % entries]);
  return node.constant(real);
}

bool is_one(NodeImport& node, size_t at) {
  const Tensor* given = constant(node, at);
  return given && given->elements() == 1;
}

/// com.microsoft's has channels that may lie last, but not in its weights.
void conv(NodeImport& node) {
  const bool last = node.integer("channels_last", 0) != 0;
  node.drop({"channels_last"});
  if (!are_known(node, {1, 2, 3, 4, 5, 6, 7, 8}) || !is_one(node, 1) || !is_one(node, 2)) {
    if (last) return node.unsupported("weights or scales that are not constant");
    node.op = "QLinearConv";
    return node.emit();
  }
  std::vector<ir::ValueId> inputs{numbers(node, 0), numbers(node, 3, 0)};
  const size_t rank = constant(node, 3)->dims().rank();
  if (last) inputs[0] = transposed(node, inputs[0], to_channels_first(rank));
  if (node.has(8)) inputs.push_back(bias_numbers(node, 8, 1, 4, 1));
  const ir::ValueId y = node.add("Conv", inputs, node.attributes);
  quantise(node, last ? transposed(node, y, to_channels_last(rank)) : y, 6);
}
TENON_IMPORT(conv, "QLinearConv", "com.microsoft:QLinearConv");

void matmul(NodeImport& node) {
  const auto rank = node.rank(node.input(3));
  const bool fits = is_one(node, 1) && is_one(node, 2) && is_one(node, 6);
  if (!fits || !are_known(node, {1, 2, 4, 5, 6, 7})) return node.emit();
  if (!is_one(node, 4) && (!rank || *rank < 1 || constant(node, 4)->dims().rank() != 1)) return node.emit();
  const int64_t columns = rank ? static_cast<int64_t>(*rank) - 1 : 0;
  quantise(node, node.add("MatMul", {numbers(node, 0), numbers(node, 3, columns)}), 6);
}
TENON_IMPORT(matmul, "QLinearMatMul");

void gemm(NodeImport& node) {
  const int64_t transposed = node.integer("transB", 0);
  const float alpha = node.real("alpha", 1);
  std::vector<ir::ValueId> inputs{numbers(node, 0), numbers(node, 3, transposed ? 0 : 1)};
  if (node.has(6)) {
    if (!are_known(node, {1, 4, 6})) return node.unsupported("a bias or scale that is not constant");
    inputs.push_back(bias_numbers(node, 6, 1, 4, alpha));
  }
  const ir::Attributes attributes{{"alpha", alpha}, {"transA", node.integer("transA", 0)}, {"transB", transposed}};
  if (node.has(7)) return quantise(node, node.add("Gemm", inputs, attributes), 7);
  node.op = "Gemm";
  node.inputs = std::move(inputs);
  node.attributes = attributes;
  node.emit();
}
TENON_IMPORT(gemm, "com.microsoft:QGemm");

/// Products of bytes as i32, times both scales, plus a bias: bytes and zero point of a and b, and the two scales.
void product(NodeImport& node, std::vector<ir::ValueId> bytes, ir::ValueId a_scale, ir::ValueId b_scale,
             ir::ValueId bias) {
  while (bytes.back() == ir::no_value) bytes.pop_back();
  const ir::ValueId sums = node.add("MatMulInteger", std::move(bytes));
  const ir::ValueId real = node.add("Cast", {sums}, {{"to", static_cast<int64_t>(DType::f32)}});
  std::vector<ir::ValueId> factors{real, node.add("Mul", {a_scale, b_scale})};
  if (bias != ir::no_value) factors = {node.add("Mul", factors), bias};
  node.op = bias != ir::no_value ? "Add" : "Mul";
  node.inputs = std::move(factors);
  node.attributes = {};
  node.emit();
}

void integer_to_float(NodeImport& node) {
  product(node, {node.input(0), node.input(1), node.input(4), node.input(5)}, node.input(2), node.input(3),
          node.input(6));
}
TENON_IMPORT(integer_to_float, "com.microsoft:MatMulIntegerToFloat");

void dynamic(NodeImport& node) {
  if (!node.has(0)) node.fail("it has no input");
  std::vector<ir::ValueId> made;
  for (const char* part : {"/bytes", "/scale", "/zero_point"})
    made.push_back(node.graph().add_value(node.label() + part));
  node.graph().add_node("DynamicQuantizeLinear", {node.input(0)}, made, {}, {node.label()});
  product(node, {made[0], node.input(1), made[2], node.input(3)}, made[1], node.input(2), node.input(4));
}
TENON_IMPORT(dynamic, "com.microsoft:DynamicQuantizeMatMul");

/// Weights of an LSTM as numbers. They lie as [directions][inputs][gates], and become [directions][gates][inputs]; one
/// scale and zero point a direction, or one for each of its gates.
ir::ValueId gate_numbers(NodeImport& node, size_t bytes_at, size_t scale_at) {
  const Tensor &bytes = *constant(node, bytes_at), &scales = *constant(node, scale_at);
  const Tensor* zeros = node.has(scale_at + 1) ? constant(node, scale_at + 1) : nullptr;
  const Dims& dims = bytes.dims();
  if (dims.rank() != 3 || (bytes.dtype() != DType::u8 && bytes.dtype() != DType::i8) || scales.dtype() != DType::f32)
    node.fail("its weights are no bytes in three axes");
  const int64_t directions = dims[0], inputs = dims[1], gates = dims[2], count = scales.elements();
  const auto fits = [&](int64_t entries) { return entries == directions || entries == directions * gates; };
  if (!fits(count) || (zeros && (zeros->elements() != count || zeros->dtype() != bytes.dtype())))
    node.fail("its scales do not fit the weights");
  const auto byte = [](const Tensor& from, int64_t at) -> float {
    return from.dtype() == DType::u8 ? from.data<uint8_t>()[at] : from.data<int8_t>()[at];
  };
  Tensor real(DType::f32, {directions, gates, inputs});
  for (int64_t direction = 0; direction < directions; ++direction)
    for (int64_t gate = 0; gate < gates; ++gate) {
      const int64_t entry = count == directions ? direction : direction * gates + gate;
      const float zero = zeros ? byte(*zeros, entry) : 0, scale = scales.data<float>()[entry];
      for (int64_t at = 0; at < inputs; ++at)
        real.data<float>()[(direction * gates + gate) * inputs + at] =
            (byte(bytes, (direction * inputs + at) * gates + gate) - zero) * scale;
    }
  return node.constant(real);
}

/// Computes on numbers: what it reads is not rounded to bytes at each step.
void lstm(NodeImport& node) {
  constexpr size_t w = 1, r = 2, scales = 8;
  if (!node.has(w) || !node.has(r) || !node.has(scales) || !node.has(scales + 2)) node.fail("weights are missing");
  if (!are_known(node, {w, r, scales, scales + 1, scales + 2, scales + 3}))
    return node.unsupported("weights that are not constant");
  node.inputs[w] = gate_numbers(node, w, scales);
  node.inputs[r] = gate_numbers(node, r, scales + 2);
  node.inputs.resize(scales);
  while (node.inputs.back() == ir::no_value) node.inputs.pop_back();
  node.op = "LSTM";
  node.emit();
}
TENON_IMPORT(lstm, "com.microsoft:DynamicQuantizeLSTM");

/// The same as the standard's, from before that had bytes of 16 bits.
void renamed(NodeImport& node) {
  node.op = std::string(node.op.name());
  node.emit();
}
TENON_IMPORT(renamed, "com.microsoft:QuantizeLinear", "com.microsoft:DequantizeLinear");

}  // namespace
}  // namespace tenon::onnx::quantized

// SPDX-License-Identifier: Apache-2.0
#include "onnx/parts.h"
#include "ops/floats.h"

/// com.microsoft's product by weights of 4 bits that name numbers of a table, in blocks along the flattened weights.
namespace tenon::onnx::microsoft_bnb4 {
namespace {

using namespace ops::attr;

TENON_FORMER("com.microsoft:MatMulBnb4",
             {integer("K").at_least(1).required(), integer("N").at_least(1).required(),
              integer("block_size").at_least(16).required(), integer("quant_type").between(0, 1).required(),
              integer("training_mode"), integer("transB")});

/// Floats of 4 bits over their largest, and quantiles of a normal distribution:
/// https://arxiv.org/abs/2305.14314, appendix E.
constexpr float tables[2][16] = {
    {0.f, 5.208333333e-03f, 0.66666667f, 1.f, 0.33333333f, 0.5f, 0.16666667f, 0.25f, -0.f, -5.208333333e-03f,
     -0.66666667f, -1.f, -0.33333333f, -0.5f, -0.16666667f, -0.25f},
    {-1.f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
     -0.18477343022823334f, -0.09105003625154495f, 0.f, 0.07958029955625534f, 0.16093020141124725f,
     0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.f}};

void convert(NodeImport& node) {
  want_inputs(node, {0, 1, 2}, 3);
  const int64_t k = node.integer("K", 1), n = node.integer("N", 1), block = node.integer("block_size", 16);
  const Tensor *packed = node.graph().constant(node.input(1)), *largest = node.graph().constant(node.input(2));
  if (!packed || !largest) return node.unsupported("weights that are not constant");
  constexpr int64_t most = int64_t{1} << 31;
  if (k > most || n > most || packed->dtype() != DType::u8 || packed->elements() != (n * k + 1) / 2)
    node.fail("its weights are " + packed->dims().str() + " of type " + std::string(name(packed->dtype())));
  const Tensor steps = ops::as_f32(*largest);
  if (steps.dtype() != DType::f32 || steps.elements() != (n * k - 1) / block + 1)
    node.fail("its scales are " + largest->dims().str() + " of type " + std::string(name(largest->dtype())));
  const bool transposes = node.integer("transB", 1);
  Tensor weights(DType::f32, transposes ? Dims{k, n} : Dims{n, k});
  const float* const table = tables[node.integer("quant_type", 0)];
  for (int64_t row = 0, at = 0; row < n; ++row)
    for (int64_t column = 0; column < k; ++column, ++at) {
      const int index = packed->data<uint8_t>()[at / 2] >> (at % 2 ? 0 : 4) & 15;
      weights.data<float>()[transposes ? column * n + row : at] = table[index] * steps.data<float>()[at / block];
    }
  become(node, "MatMul", {node.input(0), cast_like(node, node.constant(weights), node.input(0))});
}
TENON_IMPORT(convert, "com.microsoft:MatMulBnb4");

}  // namespace
}  // namespace tenon::onnx::microsoft_bnb4

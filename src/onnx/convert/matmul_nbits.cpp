// SPDX-License-Identifier: Apache-2.0
#include "ops/weight_only.h"

#include "onnx/convert.h"

/// com.microsoft's product by weights of 4 or 8 bits in blocks:
/// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
namespace tenon::onnx::matmul_nbits {
namespace {

using ops::weight_only::block_bytes;

TENON_FORMER("com.microsoft:MatMulNBits", {ops::attr::integer("K"), ops::attr::integer("N"), ops::attr::integer("bits"),
                                           ops::attr::integer("block_size"), ops::attr::integer("accuracy_level")});

const Tensor* constant(NodeImport& node, size_t at) { return node.graph().constant(node.input(at)); }

/// Zero points, one a byte: of 4 bits they come two a byte, a row of bytes for each output.
Tensor spread(const Tensor& packed, int64_t outputs, int64_t blocks, int64_t bits) {
  Tensor spread(DType::u8, {outputs, blocks});
  const int64_t row = (blocks * bits + 7) / 8;
  for (int64_t n = 0; n < outputs; ++n)
    for (int64_t at = 0; at < blocks; ++at)
      spread.data<uint8_t>()[n * blocks + at] =
          static_cast<uint8_t>(ops::weight_only::integer(packed.data<uint8_t>() + n * row, at, bits));
  return spread;
}

void convert(NodeImport& node) {
  constexpr size_t weights = 1, scales = 2, zero_points = 3, order = 4, bias = 5;
  const int64_t k = node.integer("K", 0), n = node.integer("N", 0), bits = node.integer("bits", 4),
                block = node.integer("block_size", 0);
  if (node.has(order)) return node.unsupported("weights in another order (g_idx)");
  if (bits != 4 && bits != 8) return node.unsupported("weights of " + std::to_string(bits) + " bits");
  constexpr int64_t most = int64_t{1} << 31;
  if (k < 1 || n < 1 || block < 16 || k > most || n > most || block > most || (block & (block - 1)))
    node.fail("K, N and block_size are not the sizes of blocks of weights");
  if (!constant(node, weights) || !constant(node, scales) || (node.has(zero_points) && !constant(node, zero_points)))
    return node.unsupported("weights that are not constant");
  const int64_t blocks = (k - 1) / block + 1;
  const Tensor integers = *constant(node, weights), steps = *constant(node, scales);
  if (integers.dtype() != DType::u8 || integers.elements() != n * blocks * block_bytes(block, bits))
    node.fail("its weights are " + integers.dims().str() + " of type " + std::string(name(integers.dtype())));
  if (steps.elements() != n * blocks) node.fail("its scales are " + steps.dims().str());
  std::vector<ir::ValueId> inputs{node.input(0),
                                  node.constant(integers.reshaped({n, blocks, block_bytes(block, bits)})),
                                  node.input(bias), ir::no_value, node.constant(steps.reshaped({n, blocks}))};
  if (node.has(zero_points)) {
    const Tensor given = *constant(node, zero_points);
    if (given.dtype() != DType::u8) return node.unsupported("zero points that are no integers");
    if (given.elements() != n * ((blocks * bits + 7) / 8)) node.fail("its zero points are " + given.dims().str());
    inputs.push_back(node.constant(spread(given, n, blocks, bits)));
  }
  node.bind(0, node.add("tenon:WeightOnlyMatMul", std::move(inputs), {{"k", k}, {"block", block}, {"bits", bits}}));
}
TENON_IMPORT(convert, "com.microsoft:MatMulNBits");

}  // namespace
}  // namespace tenon::onnx::matmul_nbits

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "onnx/parts.h"
#include "ops/floats.h"
#include "ops/weight_only.h"

/// com.microsoft's product by weights of 2, 4 or 8 bits in blocks:
/// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
namespace tenon::onnx::matmul_nbits {
namespace {

using ops::weight_only::block_bytes;

TENON_FORMER("com.microsoft:MatMulNBits", {ops::attr::integer("K"), ops::attr::integer("N"), ops::attr::integer("bits"),
                                           ops::attr::integer("block_size"), ops::attr::integer("accuracy_level"),
                                           ops::attr::integer("weight_prepacked")});

enum Input : size_t { x, weights, scales, zero_points, order, bias };

struct Sizes {
  int64_t k, n, bits, block, blocks;
};

const Tensor* constant(NodeImport& node, size_t at) { return node.graph().constant(node.input(at)); }

/// Integers of a few bits, the lowest of a byte first.
int integer(const uint8_t* row, int64_t at, int64_t bits) {
  const int64_t each = 8 / bits;
  return row[at / each] >> at % each * bits & ((1 << bits) - 1);
}

/// Zero points, one a byte: they come packed, a row of bytes for each output.
Tensor spread(const Tensor& packed, const Sizes& s) {
  Tensor spread(DType::u8, {s.n, s.blocks});
  const int64_t row = (s.blocks * s.bits + 7) / 8;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t at = 0; at < s.blocks; ++at)
      spread.data<uint8_t>()[n * s.blocks + at] =
          static_cast<uint8_t>(integer(packed.data<uint8_t>() + n * row, at, s.bits));
  return spread;
}

/// Zero points that are floats, as bytes; empty where one is no integer of so many bits.
Tensor rounded(const Tensor& floats, const Sizes& s) {
  Tensor bytes(DType::u8, {s.n, s.blocks});
  const Tensor wide = ops::as_f32(floats);
  for (int64_t at = 0; at < wide.elements(); ++at) {
    const float zero = wide.data<float>()[at];
    if (!(zero >= 0) || zero >= static_cast<float>(1 << s.bits) || zero != std::floor(zero)) return {};
    bytes.data<uint8_t>()[at] = static_cast<uint8_t>(zero);
  }
  return bytes;
}

Tensor floats_of(const Tensor& bytes) {
  if (!bytes) return {};
  Tensor floats(DType::f32, bytes.dims());
  std::copy_n(bytes.data<uint8_t>(), bytes.elements(), floats.data<float>());
  return floats;
}

/// Weights of 2 bits as such of 4, which there are kernels for. The zero of such without zero points is theirs.
Tensor doubled(const Tensor& packed) {
  Tensor wide(DType::u8, {packed.elements() * 2});
  for (int64_t at = 0; at < packed.elements(); ++at)
    for (int64_t half = 0; half < 2; ++half) {
      const int two = packed.data<uint8_t>()[at] >> half * 4;
      wide.data<uint8_t>()[at * 2 + half] = static_cast<uint8_t>((two & 3) | (two >> 2 & 3) << 4);
    }
  return wide;
}

/// The weights as floats, [k, n]: where no kernel takes them as they are.
void multiply(NodeImport& node, const Sizes& s, const Tensor& integers, const Tensor& steps, const Tensor& zeros) {
  const Tensor wide = ops::as_f32(steps), offsets = zeros ? ops::as_f32(zeros) : Tensor();
  const Tensor* groups = node.has(order) ? constant(node, order) : nullptr;
  if (node.has(order) && (!groups || groups->dtype() != DType::i32 || groups->elements() < s.k))
    return node.unsupported("an order of weights that is not constant");
  Tensor floats(DType::f32, {s.k, s.n});
  const int64_t bytes = block_bytes(s.block, s.bits);
  for (int64_t k = 0; k < s.k; ++k) {
    const int64_t group = groups ? groups->data<int32_t>()[k] : k / s.block;
    if (group < 0 || group >= s.blocks) node.fail("its order names block " + std::to_string(group));
    for (int64_t n = 0; n < s.n; ++n) {
      const uint8_t* row = integers.data<uint8_t>() + n * s.blocks * bytes;
      const float zero =
          offsets ? offsets.data<float>()[n * s.blocks + group] : static_cast<float>(ops::weight_only::middle(s.bits));
      floats.data<float>()[k * s.n + n] =
          (static_cast<float>(integer(row, k, s.bits)) - zero) * wide.data<float>()[n * s.blocks + group];
    }
  }
  const ir::ValueId product =
      node.add("MatMul", {node.input(x), cast_like(node, node.constant(floats), node.input(x))});
  node.bind(0, plus(node, product, node.input(bias)));
}

void convert(NodeImport& node) {
  Sizes s{node.integer("K", 0), node.integer("N", 0), node.integer("bits", 4), node.integer("block_size", 0), 0};
  want_inputs(node, {x, weights, scales}, 6);
  if (node.integer("weight_prepacked", 0)) return node.unsupported("weights that were packed for a device");
  if (s.bits != 2 && s.bits != 4 && s.bits != 8)
    return node.unsupported("weights of " + std::to_string(s.bits) + " bits");
  constexpr int64_t most = int64_t{1} << 31;
  if (s.k < 1 || s.n < 1 || s.block < 16 || s.k > most || s.n > most || s.block > most || (s.block & (s.block - 1)))
    node.fail("K, N and block_size are not the sizes of blocks of weights");
  if (!constant(node, weights) || !constant(node, scales) || (node.has(zero_points) && !constant(node, zero_points)))
    return node.unsupported("weights that are not constant");
  s.blocks = (s.k - 1) / s.block + 1;
  Tensor integers = *constant(node, weights), zeros;
  const Tensor steps = *constant(node, scales);
  if (integers.dtype() != DType::u8 || integers.elements() != s.n * s.blocks * block_bytes(s.block, s.bits))
    node.fail("its weights are " + integers.dims().str() + " of type " + std::string(name(integers.dtype())));
  if (steps.elements() != s.n * s.blocks || ops::as_f32(steps).dtype() != DType::f32)
    node.fail("its scales are " + steps.dims().str() + " of type " + std::string(name(steps.dtype())));
  if (node.has(zero_points)) {
    const Tensor given = *constant(node, zero_points);
    const bool bytes = given.dtype() == DType::u8;
    if (!bytes && ops::as_f32(given).dtype() != DType::f32) return node.unsupported("zero points of another type");
    if (given.elements() != (bytes ? s.n * ((s.blocks * s.bits + 7) / 8) : s.n * s.blocks))
      node.fail("its zero points are " + given.dims().str());
    zeros = bytes ? spread(given, s) : rounded(given, s);
    if (!zeros) return multiply(node, s, integers, steps, given);
  }
  if (node.has(order)) return multiply(node, s, integers, steps, floats_of(zeros));
  if (s.bits == 2) {
    if (!zeros) zeros = Tensor(DType::u8, {s.n, s.blocks}), std::fill_n(zeros.data<uint8_t>(), zeros.elements(), 2);
    integers = doubled(integers), s.bits = 4;
  }
  std::vector<ir::ValueId> inputs{node.input(x),
                                  node.constant(integers.reshaped({s.n, s.blocks, block_bytes(s.block, s.bits)})),
                                  node.input(bias), ir::no_value, node.constant(steps.reshaped({s.n, s.blocks}))};
  if (zeros) inputs.push_back(node.constant(zeros));
  node.bind(0,
            node.add("tenon:WeightOnlyMatMul", std::move(inputs), {{"k", s.k}, {"block", s.block}, {"bits", s.bits}}));
}
TENON_IMPORT(convert, "com.microsoft:MatMulNBits");

}  // namespace
}  // namespace tenon::onnx::matmul_nbits

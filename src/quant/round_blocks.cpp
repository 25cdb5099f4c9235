// SPDX-License-Identifier: Apache-2.0
#include "quant/round_blocks.h"

#include <algorithm>
#include <cmath>

#include "ops/half.h"
#include "ops/op.h"

namespace tenon::quant {
namespace {

/// A block of weights of one output, `pitch` apart.
struct Block {
  const float* weights;
  int64_t count, pitch;
  float at(int64_t index) const { return weights[index * pitch]; }
};

struct Scale {
  float value;
  double error;  // squared, of the whole block
};

float rounded(float weight, float scale, int low, int high) {
  return std::clamp(std::nearbyint(weight / scale), static_cast<float>(low), static_cast<float>(high));
}

double error_of(const Block& block, float scale, int low, int high) {
  double sum = 0;
  for (int64_t at = 0; at < block.count; ++at) {
    const double off = rounded(block.at(at), scale, low, high) * scale - block.at(at);
    sum += off * off;
  }
  return sum;
}

/// The best of scales by which the widest weight becomes the least integer, which is the one further from zero, or is
/// cut off.
Scale scale_of(const Block& block, int low, int high) {
  float widest = 0;
  for (int64_t at = 0; at < block.count; ++at)
    if (std::abs(block.at(at)) > std::abs(widest)) widest = block.at(at);
  if (!(std::abs(widest) > 0) || std::isinf(widest)) return {1, widest == 0 ? 0 : error_of(block, 1, low, high)};
  constexpr int steps = 12;
  constexpr float step = 0.03f;
  Scale best{0, 0};
  for (int at = -1; at < steps; ++at) {
    const float size = widest / static_cast<float>(low) * (1 - step * static_cast<float>(at));
    const float scale = ops::f16_value(ops::f16_bits(size));
    if (!(std::abs(scale) > 0) || std::isinf(scale)) continue;
    const double error = error_of(block, scale, low, high);
    if (best.value == 0 || error < best.error) best = {scale, error};
  }
  if (best.value == 0) best = {widest / static_cast<float>(low), 0};
  return best;
}

bool is_rounded(const ir::Graph& graph, const ir::Node& node) {
  if (!node.alive || !ops::has_trait(node.op, ops::Trait::integer_form) ||
      ops::has_trait(node.op, ops::Trait::convolution))
    return false;
  const bool gemm = ops::has_trait(node.op, ops::Trait::general_product);
  if (gemm && (node.integer("transA", 0) || node.real("alpha", 1) != 1 || node.real("beta", 1) != 1)) return false;
  const Tensor* weights = graph.constant(node.inputs[1]);
  return weights && weights->dtype() == DType::f32 && weights->dims().rank() == 2 &&
         weights->elements() >= least_weights;
}

}  // namespace

RoundedWeights round_to_blocks(ir::Graph& graph, int bits, int64_t block) {
  RoundedWeights all;
  double error = 0, power = 0;
  const int low = -(1 << (bits - 1)), high = -low - 1;
  const auto count = static_cast<ir::NodeId>(graph.nodes.size());
  for (ir::NodeId id = 0; id < count; ++id) {
    if (!is_rounded(graph, graph.node(id))) continue;
    const ir::Node node = graph.node(id);
    const Tensor given = *graph.constant(node.inputs[1]);
    const bool transposed = node.integer("transB", 0) && ops::has_trait(node.op, ops::Trait::general_product);
    const int64_t k = given.dims()[transposed ? 1 : 0], n = given.dims()[transposed ? 0 : 1];
    const int64_t blocks = (k - 1) / block + 1, pitch = transposed ? 1 : n;
    Tensor integers(bits == 4 ? DType::i4 : DType::i8, given.dims());
    Tensor scales(DType::f32, transposed ? Dims{n, blocks} : Dims{blocks, n});
    for (int64_t row = 0; row < n; ++row)
      for (int64_t at = 0; at < blocks; ++at) {
        const int64_t first = transposed ? row * k + at * block : at * block * n + row;
        const Block one{given.data<float>() + first, std::min(block, k - at * block), pitch};
        const Scale scale = scale_of(one, low, high);
        scales.data<float>()[transposed ? row * blocks + at : at * n + row] = scale.value;
        error += scale.error;
        for (int64_t i = 0; i < one.count; ++i) {
          power += static_cast<double>(one.at(i)) * one.at(i);
          integers.data<int8_t>()[first + i * pitch] = static_cast<int8_t>(rounded(one.at(i), scale.value, low, high));
        }
      }
    const std::string name = graph.value(node.inputs[1]).name;
    const ir::ValueId made =
        graph.apply("DequantizeLinear",
                    {graph.add_constant(name + ".integers", integers), graph.add_constant(name + ".scales", scales)},
                    {{"axis", int64_t{transposed ? 1 : 0}}, {"block_size", block}}, node.origins, name + ".rounded");
    graph.set_input(id, 1, made);
    ++all.products, all.weights += given.elements();
  }
  all.error = power > 0 ? std::sqrt(error / power) : 0;
  return all;
}

}  // namespace tenon::quant

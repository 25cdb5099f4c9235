// SPDX-License-Identifier: Apache-2.0
#include "quant/round_blocks.h"

#include <algorithm>
#include <atomic>
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

/// Integers and scales of some outputs of a product.
class Rounding {
 public:
  Rounding(const Tensor& given, bool transposed, const BlockForm& form)
      : given_(given),
        transposed_(transposed),
        form_(form),
        low_(-(1 << (form.bits - 1))),
        high_(-low_ - 1),
        k_(given.dims()[transposed ? 1 : 0]),
        n_(given.dims()[transposed ? 0 : 1]),
        blocks_((k_ - 1) / form.block + 1),
        integers(form.bits == 4 ? DType::i4 : DType::i8, given.dims()),
        scales(DType::f32, transposed ? Dims{n_, blocks_} : Dims{blocks_, n_}) {}

  int64_t outputs() const { return n_; }
  /// Rounds outputs [begin, end); adds the squared error and the power of their weights.
  void round(int64_t begin, int64_t end, const InputProducts* inputs, double& error, double& power) {
    std::vector<float> rows(static_cast<size_t>((end - begin) * k_));
    for (int64_t row = begin; row < end; ++row)
      for (int64_t k = 0; k < k_; ++k) rows[(row - begin) * k_ + k] = weight(row, k);
    for (int64_t at = 0; at < blocks_; ++at) {
      const int64_t first = at * form_.block, count = std::min(form_.block, k_ - first);
      for (int64_t row = begin; row < end; ++row) {
        const float* const own = rows.data() + (row - begin) * k_ + first;
        scales.data<float>()[transposed_ ? row * blocks_ + at : at * n_ + row] =
            scale_of({own, count, 1}, low_, high_).value;
      }
      for (int64_t k = first; k < first + count; ++k) take(rows, begin, end, at, k, inputs);
    }
    for (int64_t row = begin; row < end; ++row)
      for (int64_t k = 0; k < k_; ++k) {
        const double exact = weight(row, k), off = integer(row, k) * scale(row, k / form_.block) - exact;
        error += off * off, power += exact * exact;
      }
  }

 private:
  float weight(int64_t row, int64_t k) const { return given_.data<float>()[place(row, k)]; }
  int64_t place(int64_t row, int64_t k) const { return transposed_ ? row * k_ + k : k * n_ + row; }
  float scale(int64_t row, int64_t at) const {
    return scales.data<float>()[transposed_ ? row * blocks_ + at : at * n_ + row];
  }
  double integer(int64_t row, int64_t k) const { return integers.data<int8_t>()[place(row, k)]; }

  /// Rounds weight k of the rows, and takes what that adds to the results away from the weights behind it.
  void take(std::vector<float>& rows, int64_t begin, int64_t end, int64_t at, int64_t k, const InputProducts* inputs) {
    const ColumnPiece* piece = nullptr;
    if (inputs)
      for (const ColumnPiece& one : inputs->pieces())
        if (k >= one.begin && k < one.begin + one.count) piece = &one;
    const float* const factor = piece ? piece->products.data() + (k - piece->begin) * piece->count : nullptr;
    for (int64_t row = begin; row < end; ++row) {
      float* const own = rows.data() + (row - begin) * k_;
      const float step = scale(row, at), number = rounded(own[k], step, low_, high_);
      integers.data<int8_t>()[place(row, k)] = static_cast<int8_t>(number);
      if (!piece) continue;
      const int64_t from = k - piece->begin;
      const float error = (own[k] - number * step) / factor[from];
      float* const others = own + piece->begin;
      for (int64_t j = from + 1; j < piece->count; ++j) others[j] -= error * factor[j];
    }
  }

  const Tensor& given_;
  bool transposed_;
  BlockForm form_;
  int low_, high_;
  int64_t k_, n_, blocks_;

 public:
  Tensor integers, scales;
};

bool is_transposed(const ir::Node& node) {
  return node.integer("transB", 0) && ops::has_trait(node.op, ops::Trait::general_product);
}

constexpr int64_t rows_together = 8;  // share what they read of the factors

}  // namespace

std::vector<ir::NodeId> products_to_round(const ir::Graph& graph) {
  std::vector<ir::NodeId> list;
  for (size_t id = 0; id < graph.nodes.size(); ++id)
    if (is_rounded(graph, graph.nodes[id])) list.push_back(static_cast<ir::NodeId>(id));
  return list;
}

int64_t columns_of(const ir::Graph& graph, ir::NodeId product) {
  const ir::Node& node = graph.node(product);
  return graph.constant(node.inputs[1])->dims()[is_transposed(node) ? 1 : 0];
}

void round_product(ir::Graph& graph, ir::NodeId product, const BlockForm& form, const InputProducts* inputs,
                   ThreadPool& thread_pool, RoundedWeights& all) {
  const ir::Node node = graph.node(product);
  const Tensor given = *graph.constant(node.inputs[1]);
  Rounding rounding(given, is_transposed(node), form);
  struct Shared {
    Rounding& rounding;
    const InputProducts* inputs;
    std::vector<double> errors, powers;  // by groups of rows, so that sums do not depend on the threads
    std::atomic<int64_t> next{0};
  } shared{rounding, inputs, {}, {}};
  const int64_t groups = (rounding.outputs() + rows_together - 1) / rows_together;
  shared.errors.resize(static_cast<size_t>(groups)), shared.powers.resize(static_cast<size_t>(groups));
  thread_pool.run(
      [](void* context, const Worker&) {
        auto& work = *static_cast<Shared*>(context);
        const auto count = static_cast<int64_t>(work.errors.size());
        for (int64_t at = work.next++; at < count; at = work.next++)
          work.rounding.round(at * rows_together, std::min(work.rounding.outputs(), (at + 1) * rows_together),
                              work.inputs, work.errors[at], work.powers[at]);
      },
      &shared);
  for (int64_t at = 0; at < groups; ++at) all.squared_error += shared.errors[at], all.power += shared.powers[at];
  const std::string name = graph.value(node.inputs[1]).name;
  const ir::ValueId made = graph.apply("DequantizeLinear",
                                       {graph.add_constant(name + ".integers", rounding.integers),
                                        graph.add_constant(name + ".scales", rounding.scales)},
                                       {{"axis", int64_t{is_transposed(node) ? 1 : 0}}, {"block_size", form.block}},
                                       node.origins, name + ".rounded");
  graph.set_input(product, 1, made);
  ++all.products, all.weights += given.elements();
  all.error = all.power > 0 ? std::sqrt(all.squared_error / all.power) : 0;
}

}  // namespace tenon::quant

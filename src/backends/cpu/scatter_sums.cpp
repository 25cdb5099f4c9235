// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/indices.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "ops/expressions/add.h"
#include "ops/expressions/max.h"
#include "ops/expressions/min.h"
#include "ops/expressions/mul.h"

namespace tenon::cpu::scatter_sums {
namespace {

using backends::Problem;
using backends::Reason;

expr::Id combination(const Problem& problem) {
  const std::string name = problem.node->text("reduction", "none");
  return name == "add" ? expr::Id::Add : name == "mul" ? expr::Id::Mul : name == "max" ? expr::Id::Max : expr::Id::Min;
}

/// Updates that are added to the data, multiplied with it, or compared. A worker has pieces of the data of its own and
/// takes the updates of these in their order, so that results do not depend on the number of workers.
class ScatterSumsStep : public backends::Step {
 public:
  explicit ScatterSumsStep(const Problem& problem)
      : indices_(*problem.node, problem.inputs[1].dtype), f_(combination(problem)), ops_(row_ops(isa_for(problem))) {
    const Dims &data = problem.inputs[0].dims, &where = problem.inputs[1].dims;
    updates_ = where.elements() / where.back();
    for (size_t axis = 0; axis < data.rank(); ++axis)
      if (static_cast<int64_t>(axis) < where.back()) sizes_.push_back(data[axis]);
      else length_ *= data[axis];
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* data = reinterpret_cast<const float*>(inputs[0]);
    const auto* update = reinterpret_cast<const float*>(inputs[2]);
    auto* const y = reinterpret_cast<float*>(outputs[0]);
    int64_t begin, end;
    worker.share(sizes_.elements(), begin, end);
    if (y != data) std::copy(data + begin * length_, data + end * length_, y + begin * length_);
    const auto tuple = static_cast<int64_t>(sizes_.rank());
    // Every worker looks at all of them, so that none waits for one that has failed.
    for (int64_t at = 0; at < updates_; ++at, update += length_) {
      int64_t piece = 0;
      for (int64_t axis = 0; axis < tuple; ++axis) {
        const int64_t size = sizes_[static_cast<size_t>(axis)];
        piece = piece * size + indices_.at(inputs[1], at * tuple + axis, size);
      }
      if (piece >= begin && piece < end) combine(y + piece * length_, update);
    }
  }

 private:
  void combine(float* to, const float* update) const {
    constexpr int64_t least_row = 8;
    if (length_ >= least_row) return ops_.binary(f_, to, to, 1, update, 1, length_);
    for (int64_t at = 0; at < length_; ++at) {
      const float a = to[at], b = update[at];
      switch (f_) {
        case expr::Id::Add: to[at] = expr::Add::apply(a, b); break;
        case expr::Id::Mul: to[at] = expr::Mul::apply(a, b); break;
        case expr::Id::Max: to[at] = expr::Max::apply(a, b); break;
        default: to[at] = expr::Min::apply(a, b);
      }
    }
  }

  Indices indices_;
  expr::Id f_;
  const RowOps& ops_;
  Dims sizes_;  // of the axes that a tuple picks on
  int64_t updates_, length_ = 1;
};

Reason refuses(const Problem& problem) {
  if (problem.node->text("reduction", "none") == "none") return Reason::other_kernel;
  if (problem.inputs[0].dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (problem.inputs[2].dims.elements() == 0 || problem.outputs[0].dims.elements() == 0) return Reason::empty;
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<ScatterSumsStep>(problem); }

const backends::KernelRegistrar registered({"ScatterND", "sums", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::scatter_sums

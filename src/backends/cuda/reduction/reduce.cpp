// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/reduction/reduce.h"
#include "backends/cuda/reduction/reduce_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::reduce {
namespace {

constexpr size_t most_axes = 4;  // of rows

using Params = ReduceParams;

}  // namespace

std::optional<std::vector<int64_t>> axes_of(const Problem& problem) {
  const ir::Node& node = *problem.node;
  const Operand& x = problem.inputs[0];
  const auto rank = static_cast<int64_t>(x.dims.rank());
  std::vector<int64_t> axes;
  if (ops::has_trait(node.op, ops::Trait::global)) {
    const bool last = node.text("layout", "") == "NHWC";
    for (int64_t axis = 2; axis < rank; ++axis) axes.push_back(last ? axis - 1 : axis);
    return axes;
  }
  if (problem.inputs.size() > 1 && problem.inputs[1]) {
    const Tensor& given = problem.inputs[1].constant;
    if (!given || given.dtype() != DType::i64) return std::nullopt;
    axes.assign(given.data<int64_t>(), given.data<int64_t>() + given.elements());
  }
  if (axes.empty() && node.integer("noop_with_empty_axes", 0)) return std::nullopt;
  if (axes.empty())
    for (int64_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  for (int64_t& axis : axes)
    if (axis < 0) axis += rank;
  std::sort(axes.begin(), axes.end());
  return axes;
}

namespace {

/// Where the rows of a view lie that is reduced along its last axes; false where they are on too many axes.
bool set_rows(const Operand& x, size_t first, Params& params) {
  params.step = 1;
  int64_t run = 0;  // from an element of the last axis that has several to one behind all of it
  for (size_t axis = x.dims.rank(); axis-- > first;) {
    if (x.dims[axis] == 1) continue;
    if (run == 0) params.step = x.strides[axis];
    else if (x.strides[axis] != run) return false;
    run = x.strides[axis] * x.dims[axis];
  }
  size_t at = most_axes;
  for (size_t axis = first; axis-- > 0;) {
    if (x.dims[axis] == 1) continue;
    if (at < most_axes && x.strides[axis] == params.strides[at] * params.dims[at]) {
      params.dims[at] *= static_cast<unsigned>(x.dims[axis]);
      continue;
    }
    if (at-- == 0) return false;
    params.dims[at] = static_cast<unsigned>(x.dims[axis]), params.strides[at] = x.strides[axis];
  }
  return true;
}

Reason shape_of(const Problem& problem, Params& params) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!is_real(x.dtype) || !is_real(y.dtype)) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (!y.dense()) return {Reason::view, "a result"};
  const auto axes = axes_of(problem);
  if (!axes) return {Reason::not_constant, "its axes"};
  if (axes->empty()) return {Reason::form, "reduction of an axis"};
  for (size_t at = 1; at < axes->size(); ++at)
    if ((*axes)[at] != (*axes)[at - 1] + 1) return {Reason::attribute, "axes", "neighbours"};
  params = {};
  for (int64_t axis = 0; axis < static_cast<int64_t>(x.dims.rank()); ++axis) {
    const int64_t size = x.dims[static_cast<size_t>(axis)];
    (axis < axes->front() ? params.outer : axis > axes->back() ? params.inner : params.length) *= size;
  }
  if (params.length == 0) return Reason::empty;
  if (params.inner > 1) return x.dense() ? Reason() : Reason(Reason::not_contiguous, "rows");
  if (params.outer >= int64_t{1} << 32) return Reason::too_large;
  return set_rows(x, static_cast<size_t>(axes->front()), params) ? Reason()
                                                                 : Reason(Reason::too_many, most_axes, "axes of rows");
}

}  // namespace

Reason refuses(const Problem& problem, const Properties&) {
  Params params;
  return shape_of(problem, params);
}

int kind_of(ops::Reduction reduction) {
  switch (reduction) {
    case ops::Reduction::sum: return 0;
    case ops::Reduction::mean: return 1;
    case ops::Reduction::smallest: return 3;
    case ops::Reduction::l2: return 4;
    case ops::Reduction::squares: return 5;
    case ops::Reduction::l1: return 6;
    default: return 2;
  }
}

namespace {

/// Neighbours of inner that a lane takes at once.
std::vector<int> vectors_of(const Problem& problem, const Params& params) {
  const Operand& x = problem.inputs[0];
  const auto most = static_cast<int>(16 / size_of(x.dtype));
  std::vector<int> list;
  for (int vector = most; vector > 1; vector /= 2)
    if (params.inner > 1 && x.aligned && params.inner % vector == 0) list.push_back(vector);
  list.push_back(1);
  return list;
}

Extent extent_of(const Params& params) { return {params.outer, params.length, params.inner}; }

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  Params params;
  shape_of(problem, params);
  const Extent extent = extent_of(params);
  std::vector<Tactic> list = tactics_for(extent, vectors_of(problem, params), properties);
  for (Tactic& tactic : list) {
    Source source{"reduce.cu", {}, ""};
    source.defines = defines_of(tactic, extent, ops::traits_of(problem.node->op).reduction(), problem.outputs[0].dtype);
    source.defines.push_back(define_type("TX", problem.inputs[0].dtype));
    tactic.sources = {source};
  }
  return list;
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Params params{};
  shape_of(problem, params);
  return simple_step<1>(device, tactic, "reduce", params, grid_of(tactic, extent_of(params)));
}

}  // namespace

std::vector<Tactic> tactics_for(const Extent& extent, const std::vector<int>& vectors, const Properties& properties) {
  std::vector<Tactic> list;
  const auto add = [&](const std::string& name, int vector, int lanes, int threads, int cluster, int rows = 8) {
    list.push_back({name, {}, {vector, lanes, threads, cluster, rows}});
  };
  // With few rows most of the GPU is idle, and a warp's loads wait for each other.
  constexpr int64_t few_rows = 1024, long_row = 1024;
  if (extent.inner == 1 && extent.outer <= few_rows && extent.length >= long_row) add("reduce row", 1, 32, 1024, 1, 1);
  // A warp would have few numbers of a short row to add.
  if (extent.inner == 1 && extent.length < long_row / 8) {
    int lanes = 1;
    while (lanes * 8 <= extent.length) lanes *= 2;
    for (const int few : {lanes, lanes / 2})
      if (few > 0) add("reduce by " + std::to_string(few), 1, few, 256, 1, 256 / few);
  }
  for (const int vector : vectors) {
    add("reduce " + std::to_string(vector), vector, 32, 256, 1);
    if (extent.inner == 1 || extent.length < 64) continue;
    int lanes = 1;
    while (lanes < 32 && lanes * vector < extent.inner) lanes *= 2;
    for (const int few : {lanes, lanes / 4}) {
      if (few == 0 || (few == lanes && lanes == 32)) continue;
      add("reduce " + std::to_string(vector) + " by " + std::to_string(few), vector, few, 512, 1);
    }
    const bool clusters = properties.capability() >= 90 && extent.length >= 1024;
    if (clusters) add("reduce " + std::to_string(vector) + " together", vector, lanes, 512, 8);
  }
  return list;
}

std::vector<std::string> defines_of(const Tactic& tactic, const Extent& extent, ops::Reduction reduction, DType y) {
  return {define_type("TY", y),
          define("OP", kind_of(reduction)),
          define("INNER", extent.inner == 1 ? 1 : 2),
          define("VEC", tactic.numbers[0]),
          define("LANES", tactic.numbers[1]),
          define("THREADS", tactic.numbers[2]),
          define("CLUSTER", tactic.numbers[3]),
          define("ROWS", tactic.numbers[4])};
}

Grid grid_of(const Tactic& tactic, const Extent& extent) {
  const int64_t width = int64_t{tactic.numbers[0]} * tactic.numbers[1], cluster = tactic.numbers[3];
  const int64_t tiles = extent.outer * ceil_div(extent.inner, width);
  return {extent.inner == 1 ? ceil_div(extent.outer, tactic.numbers[4]) : tiles * cluster, 1, 1, tactic.numbers[2], 0};
}

namespace {

struct Register {
  Register() {
    for (const char* op : {"GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin",
                           "ReduceL1", "ReduceL2", "ReduceSumSquare"})
      KernelRegistrar({op, "reduce", 1, refuses, tactics, make});
  }
};
const Register registered;

}  // namespace
}  // namespace tenon::cuda::reduce

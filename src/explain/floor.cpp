// SPDX-License-Identifier: Apache-2.0
#include "explain/floor.h"

#include <algorithm>

#include "ops/fused_operands.h"
#include "ops/op.h"

namespace tenon::explain {
namespace {

using backends::Operand;
using backends::Problem;

constexpr double far_factor = 4, far_share = 0.03;

double bytes_of(const Operand& operand) {
  return operand ? static_cast<double>(operand.dims.elements()) * static_cast<double>(size_of(operand.dtype)) : 0;
}

double elements_of(const Operand& operand) { return static_cast<double>(operand.dims.elements()); }

/// Multiply-adds by weights that are known: each meets every row of the operand `side`, or with `windows` every pixel,
/// of which there are so many as elements in one of its channels; of several results, in those of the one it makes.
double by_weights(const Problem& problem, const Operand& side, bool windows) {
  double sum = 0;
  for (size_t at = 1; at < problem.inputs.size(); ++at) {
    const Operand& w = problem.inputs[at];
    if (!w || !w.constant || w.dims.rank() < 2) continue;
    const auto makes = [&](const Operand& y) { return y && y.dims.rank() > 0 && y.dims.back() == w.dims[0]; };
    const auto made = std::find_if(problem.outputs.begin(), problem.outputs.end(), makes);
    const Operand& meets = windows && problem.outputs.size() > 1 && made != problem.outputs.end() ? *made : side;
    const int64_t channels = windows ? w.dims[0] : side.dims.rank() ? side.dims.back() : 1;
    sum += elements_of(w) * elements_of(meets) / static_cast<double>(std::max<int64_t>(1, channels));
  }
  return sum;
}

double products_of(const Problem& problem) {
  const ir::OpId& op = problem.node->op;
  if (problem.inputs.size() < 2 || problem.outputs.empty() || !problem.inputs[0] || !problem.inputs[1]) return 0;
  const Operand &x = problem.inputs[0], &other = problem.inputs[1], &y = problem.outputs[0];
  if (!y || x.dims.rank() == 0 || y.dims.rank() == 0) return 0;
  // Attention: scores of queries and keys, and their product with the values.
  if (ops::has_trait(op, ops::Trait::any_order))
    return elements_of(x) / static_cast<double>(std::max<int64_t>(1, x.dims.back())) *
           static_cast<double>(other.dims[x.dims.rank() - 2]) * static_cast<double>(x.dims.back() + y.dims.back());
  if (!ops::has_trait(op, ops::Trait::product)) return 0;
  if (ops::has_trait(op, ops::Trait::convolution)) return by_weights(problem, y, true);
  if (other.constant && other.dims.rank() > 2 && x.dims.rank() == other.dims.rank() && problem.node->has("strides"))
    return by_weights(problem, x, true);  // transposed: each pixel of the input meets the weights
  return other.constant ? by_weights(problem, x, false) : elements_of(y) * static_cast<double>(x.dims.back());
}

}  // namespace

Work work_of(const Problem& problem) {
  Work work;
  double written = 0, read = 0;
  for (const Operand& operand : problem.inputs) read += bytes_of(operand);
  for (const Operand& operand : problem.outputs) written += bytes_of(operand);
  const bool part = ops::has_trait(problem.node->op, ops::Trait::moves);
  work.bytes = written + (part ? std::min(read, written) : read);
  work.products = products_of(problem);
  for (const Operand& operand : problem.inputs) {
    if (operand.dtype == DType::i8 || operand.dtype == DType::u8) work.width = 1;
  }
  if (ops::reads_int16(*problem.node)) work.width = 2;
  return work;
}

Floor floor_of(const Work& work, const backends::Limits& limits) {
  constexpr double widest = 4;
  const double bytes = work.bytes / (work.bytes <= limits.cache_bytes ? std::max(limits.cache, limits.memory)
                                                                      : limits.memory);
  const double products = work.products / (limits.products * widest / work.width);
  return {std::max(bytes, products) + limits.step, products > bytes};
}

void set_floors(Report& report, const backends::Limits& limits) {
  report.limits = limits;
  report.far.clear();
  for (size_t at = 0; at < report.rows.size(); ++at) {
    Row& row = report.rows[at];
    if (row.work.bytes <= 0 || row.rounds < 0) continue;
    Work work = row.work;
    if (row.precision == Precision::bf16) work.width = std::min(work.width, 2.0);
    row.floor = floor_of(work, limits);
    row.floor.microseconds *= row.rounds;
    if (row.microseconds > far_factor * row.floor.microseconds && report.share(row) > far_share)
      report.far.push_back(at);
  }
  std::stable_sort(report.far.begin(), report.far.end(), [&](size_t a, size_t b) {
    return report.rows[a].microseconds > report.rows[b].microseconds;
  });
}

}  // namespace tenon::explain

// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/dense.h"

#include <algorithm>

#include "backends/strided_copy.h"

namespace tenon::cpu {
namespace {

using backends::Operand;
using backends::Problem;

constexpr int64_t alignment = 64;

struct Copy {
  size_t operand;
  Dims dims, strides, dense;
  size_t element;
  int64_t offset;  // of the dense copy in the workspace, in bytes
};

class DenseStep : public backends::Step {
 public:
  DenseStep(const Problem& problem, std::unique_ptr<backends::Step> inner)
      : inner_(std::move(inner)), inputs_(problem.inputs.size()), outputs_(problem.outputs.size()) {
    own_ = (static_cast<int64_t>(inner_->workspace_bytes()) + alignment - 1) / alignment * alignment;
    bytes_ = own_;
    const auto add = [&](const std::vector<Operand>& operands, std::vector<Copy>& copies) {
      for (size_t at = 0; at < operands.size(); ++at) {
        const Operand& operand = operands[at];
        if (!operand || operand.dense() || operand.constant) continue;
        const size_t size = size_of(operand.dtype);
        copies.push_back({at, operand.dims, operand.strides, backends::dense_strides(operand.dims), size, bytes_});
        bytes_ += (operand.dims.elements() * static_cast<int64_t>(size) + alignment - 1) / alignment * alignment;
      }
    };
    add(problem.inputs, in_);
    add(problem.outputs, out_);
  }
  size_t workspace_bytes() const override { return static_cast<size_t>(bytes_); }
  size_t packed_bytes() const override { return inner_->packed_bytes(); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    constexpr size_t most = 64;
    std::byte *in[most], *out[most];
    std::copy(inputs, inputs + inputs_, in);
    std::copy(outputs, outputs + outputs_, out);
    for (const Copy& copy : in_) {
      in[copy.operand] = worker.workspace + copy.offset;
      part(copy, worker, [&](const Dims& dims, int64_t from, int64_t to) {
        backends::strided_copy(dims, copy.element, inputs[copy.operand] + from, copy.strides, in[copy.operand] + to,
                               copy.dense);
      });
    }
    for (const Copy& copy : out_) out[copy.operand] = worker.workspace + copy.offset;
    if (!in_.empty()) worker.sync();
    inner_->run(in, out, worker);
    if (!out_.empty()) worker.sync();
    for (const Copy& copy : out_)
      part(copy, worker, [&](const Dims& dims, int64_t to, int64_t from) {
        backends::strided_copy(dims, copy.element, out[copy.operand] + from, copy.dense, outputs[copy.operand] + to,
                               copy.strides);
      });
  }

 private:
  /// This worker's part of a copy, cut along the longest axis but the last: f(sizes, byte offset in the view, in the
  /// dense copy).
  template <class F>
  static void part(const Copy& copy, const Worker& worker, F f) {
    size_t cut = 0;
    for (size_t axis = 1; axis + 1 < copy.dims.rank(); ++axis)
      if (copy.dims[axis] > copy.dims[cut]) cut = axis;
    int64_t begin, end;
    worker.share(copy.dims[cut], begin, end);
    if (begin == end) return;
    Dims dims = copy.dims;
    dims[cut] = end - begin;
    const auto size = static_cast<int64_t>(copy.element);
    f(dims, begin * copy.strides[cut] * size, begin * copy.dense[cut] * size);
  }

  std::unique_ptr<backends::Step> inner_;
  size_t inputs_, outputs_;
  int64_t own_ = 0, bytes_ = 0;
  std::vector<Copy> in_, out_;
};

}  // namespace

Problem densified(const Problem& problem) {
  Problem dense = problem;
  for (std::vector<Operand>* operands : {&dense.inputs, &dense.outputs})
    for (Operand& operand : *operands)
      if (operand) operand.strides = backends::dense_strides(operand.dims);
  return dense;
}

std::unique_ptr<backends::Step> with_dense_copies(const Problem& problem, std::unique_ptr<backends::Step> inner) {
  const auto view = [](const Operand& operand) { return operand && !operand.constant && !operand.dense(); };
  if (std::none_of(problem.inputs.begin(), problem.inputs.end(), view) &&
      std::none_of(problem.outputs.begin(), problem.outputs.end(), view))
    return inner;
  return std::make_unique<DenseStep>(problem, std::move(inner));
}

}  // namespace tenon::cpu

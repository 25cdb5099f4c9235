// SPDX-License-Identifier: Apache-2.0
#include "backends/resize_axes.h"

#include <tenon/error.h>

namespace tenon::backends {
namespace {

/// What the shared code of Resize asks of its context.
struct Context {
  const ir::Node& node_;
  const ir::Node& node() const { return node_; }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(Code::invalid_model, why, {.where = "node " + node_.label()});
  }
};

}  // namespace

std::vector<ops::resizing::Axis> resize_axes(const Problem& problem) {
  std::vector<double> scales;
  std::vector<int64_t> sizes;
  const auto constant = [&](size_t input) {
    return input < problem.inputs.size() && problem.inputs[input] ? problem.inputs[input].constant : Tensor();
  };
  if (const Tensor given = constant(2))
    for (int64_t at = 0; at < given.elements(); ++at) scales.push_back(given.data<float>()[at]);
  if (const Tensor given = constant(3))
    for (int64_t at = 0; at < given.elements(); ++at) sizes.push_back(given.data<int64_t>()[at]);
  return ops::resizing::resized(Context{*problem.node}, problem.inputs[0].dims, scales, sizes);
}

}  // namespace tenon::backends

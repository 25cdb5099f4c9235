// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <set>

#include "plan/plan.h"

namespace tenon::plan {
namespace {

[[noreturn]] void refuse(const std::string& output, const std::string& input, const std::string& why,
                         const std::string& hint = "") {
  throw Error(Code::usage, "output \"" + output + "\" cannot be carried to input \"" + input + "\"",
              {.why = why, .hint = hint});
}

}  // namespace

std::string output_name(const ir::Graph& graph, size_t at) {
  return at < graph.output_names.size() ? graph.output_names[at] : graph.value(graph.outputs[at]).name;
}

std::vector<Carried> carried_of(const Plan& plan) {
  std::vector<Carried> all;
  for (const auto& [output, input] : plan.carried) {
    Carried one{plan.graph.outputs.size(), plan.graph.inputs.size()};
    for (size_t at = 0; at < plan.graph.outputs.size(); ++at)
      if (output_name(plan.graph, at) == output) one.output = at;
    for (size_t at = 0; at < plan.graph.inputs.size(); ++at)
      if (plan.graph.value(plan.graph.inputs[at]).name == input) one.input = at;
    if (one.output == plan.graph.outputs.size()) refuse(output, input, "the model has no such output");
    if (one.input == plan.graph.inputs.size()) refuse(output, input, "the model has no such input");
    all.push_back(one);
  }
  return all;
}

void check_carried(const Plan& plan) {
  std::set<size_t> inputs, outputs;
  const std::vector<Carried> all = carried_of(plan);
  for (size_t at = 0; at < all.size(); ++at) {
    const auto& [output, input] = plan.carried[at];
    const ir::Value& from = plan.graph.value(plan.graph.outputs[all[at].output]);
    const ir::Value& to = plan.graph.value(plan.graph.inputs[all[at].input]);
    if (!inputs.insert(all[at].input).second || !outputs.insert(all[at].output).second)
      refuse(output, input, "one of them is carried twice");
    if (from.dtype != to.dtype || size_of(to.dtype) == 0)
      refuse(output, input, std::string(name(from.dtype)) + " goes into " + std::string(name(to.dtype)));
    if (from.shape && to.shape && from.shape->size() != to.shape->size())
      refuse(output, input, "they have not the same axes");
  }
}

}  // namespace tenon::plan

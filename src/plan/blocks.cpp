// SPDX-License-Identifier: Apache-2.0
#include "plan/blocks.h"

#include <algorithm>

#include "backends/backend.h"
#include "ops/control_flow.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "plan/bind.h"

namespace tenon::plan {
namespace {

constexpr int64_t few_elements = 1 << 14;  // of a node's operands: waiting for other threads takes longer

/// Elements of the operands of the node that has most.
int64_t largest_node(const ir::Graph& body) {
  int64_t most = 0;
  for (const ir::Node& node : body.nodes) {
    double elements = 0;
    for (const auto* list : {&node.inputs, &node.outputs})
      for (const ir::ValueId id : *list) {
        if (id == ir::no_value || !body.value(id).shape) continue;
        double count = 1;
        for (const ir::Dim& dim : *body.value(id).shape) count *= static_cast<double>(dim.value());
        elements += count;
      }
    most = std::max(most, static_cast<int64_t>(std::min(elements, 1e18)));
  }
  return most;
}

/// Type and sizes; empty where they are not known.
std::optional<std::pair<DType, Dims>> known(const ir::Graph& graph, ir::ValueId id) {
  const ir::Value& value = graph.value(id);
  if (!value.shape || !ir::is_constant(*value.shape) || size_of(value.dtype) == 0) return std::nullopt;
  Dims dims;
  for (const ir::Dim& dim : *value.shape) dims.push_back(dim.value());
  return std::pair(value.dtype, dims);
}

/// Whether both are known, and the same.
bool agree(const ir::Graph& one, ir::ValueId a, const ir::Graph& other, ir::ValueId b) {
  const auto left = known(one, a), right = known(other, b);
  return left && right && *left == *right;
}

bool inputs_are_known(const ir::Graph& body) {
  return std::all_of(body.inputs.begin(), body.inputs.end(), [&](ir::ValueId id) { return known(body, id); });
}

bool fits_branch(const ir::Graph& graph, const ir::Node& node, const ir::Graph& body) {
  for (size_t at = 0; at < node.outputs.size(); ++at)
    if (node.outputs[at] != ir::no_value && !agree(graph, node.outputs[at], body, body.outputs[at])) return false;
  return true;
}

/// Whether a scan of a body's output, or a scanned tensor of a body's input, has the sizes that this one has in all
/// rounds; `rounds` is their number, below 0 as long as nobody has said it.
bool is_stack(const ir::Graph& graph, ir::ValueId whole, int64_t axis, const ir::Graph& body, ir::ValueId part,
              int64_t& rounds) {
  const auto all = known(graph, whole), one = known(body, part);
  if (!all || !one || all->first != one->first || all->second.rank() != one->second.rank() + 1) return false;
  if (axis < 0) axis += static_cast<int64_t>(all->second.rank());
  if (axis < 0 || axis >= static_cast<int64_t>(all->second.rank())) return false;
  Dims rest = all->second;
  const int64_t length = rest[static_cast<size_t>(axis)];
  rest.erase(static_cast<size_t>(axis));
  if (!(rest == one->second) || (rounds >= 0 && rounds != length)) return false;
  rounds = length;
  return true;
}

bool fits_loop(const ir::Graph& graph, const ir::Node& node, const ir::Graph& body) {
  const auto form = ops::loop_form(node);
  if (!form || body.inputs.size() != node.inputs.size() || body.outputs.size() < form->first_scan() + form->scans)
    return false;
  for (size_t at = 0; at < form->carried; ++at) {
    const ir::ValueId input = body.inputs[form->first_carried() + at];
    if (!agree(body, input, body, body.outputs[form->first_result() + at])) return false;
    if (!agree(body, input, graph, node.inputs[form->first_carried() + at])) return false;
  }
  int64_t rounds = -1;
  for (size_t at = 0; at < form->scanned; ++at)
    if (!is_stack(graph, node.inputs[form->first_scanned() + at], form->scanned_axes[at].axis, body,
                  body.inputs[form->first_scanned() + at], rounds))
      return false;
  for (size_t at = 0; at < form->scans; ++at)
    if (const ir::ValueId output = node.outputs[form->carried + at];
        output != ir::no_value &&
        !is_stack(graph, output, form->scan_axes[at].axis, body, body.outputs[form->first_scan() + at], rounds))
      return false;
  if (!form->counts) return rounds >= 0;
  // Scans of a loop that a condition ends have no sizes.
  const auto goes_on = known(body, body.outputs[0]);
  return goes_on && goes_on->first == DType::boolean && goes_on->second.elements() == 1 &&
         (form->scans == 0 || ops::always_goes_on(body));
}

/// The node in a graph of its own.
ir::Graph alone(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  ir::Graph single;
  std::map<ir::ValueId, ir::ValueId> here{{ir::no_value, ir::no_value}};
  const auto places = [&](const std::vector<ir::ValueId>& ids) {
    std::vector<ir::ValueId> list;
    for (const ir::ValueId value : ids) {
      if (!here.count(value)) {
        const ir::Value& from = graph.value(value);
        here[value] = single.add_value(from.name, from.dtype, from.shape);
        single.value(here[value]).constant = from.constant;
        single.value(here[value]).content = from.content;
      }
      list.push_back(here[value]);
    }
    return list;
  };
  const std::vector<ir::ValueId> inputs = places(node.inputs), outputs = places(node.outputs);
  single.add_node(node.op, inputs, outputs, node.attributes, node.origins);
  return single;
}

/// What its sizes decide becomes constant.
void fold(ir::Graph& body) {
  for (const char* pass : {"shape_folding", "constant_folding", "fold_branches", "fold_loops", "fold_inlined"})
    passes::run_pass(body, pass);
}

/// A body by its steps where it has them, else by the plan's records.
backends::Schedule block_schedule(const Plan& plan, const Steps* steps, ir::Graph body, int threads, bool exactly) {
  if (!steps) return schedule(plan, device_graph(std::move(body), plan), threads, Branches::sequential);
  Block block = block_of(plan, *steps, std::move(body), exactly);
  Layout layout = std::move(block.layout);
  return bind(plan, block, std::move(layout), threads);
}

Blocks blocks_of(const ir::Graph& graph, ir::NodeId id, const Plan& plan, int threads, const StepChoice* step,
                 bool exactly) {
  const ir::Node& node = graph.node(id);
  const std::vector<std::string> names = ops::bodies_of(node);
  if (names.empty()) return nullptr;
  const bool has_steps = step && !step->blocks.empty();
  if (has_steps && step->blocks.size() != names.size())
    throw Error(Code::bad_engine, "the engine's steps are not those of its graph",
                {.why = "a node has other bodies", .hint = "build it again from its model"});
  ir::Graph single = alone(graph, id);
  std::map<std::string, ir::Graph> bodies = ops::infer_bodies(single, 0);
  auto blocks = std::make_shared<std::vector<backends::Schedule>>();
  for (const std::string& name : names) {
    const auto body = bodies.find(name);
    if (body == bodies.end()) return nullptr;
    fold(body->second);
    if (!is_static(body->second) || !inputs_are_known(body->second)) return nullptr;
    const bool loops = ops::flow_of(node.op) == ops::Flow::loop;
    if (!(loops ? fits_loop : fits_branch)(graph, node, body->second)) return nullptr;
    const int used = largest_node(body->second) <= few_elements ? 1 : threads;
    const Steps* steps = has_steps ? &step->blocks[blocks->size()] : nullptr;
    blocks->push_back(block_schedule(plan, steps, std::move(body->second), used, exactly));
  }
  return blocks;
}

}  // namespace

BlockChoice choose_blocks(const ir::Graph& graph, const backends::Problem& problem, ir::NodeId id, const Plan& plan,
                          const StepChoice* step, bool exactly) {
  const backends::Backend& backend = backends::backend(plan.device);
  if (ops::bodies_of(graph.node(id)).empty() || !backend.capabilities(plan.device).blocks) return {};
  Blocks blocks = blocks_of(graph, id, plan, problem.threads, step, exactly);
  std::string tactic = blocks ? backend.choose_blocks(problem, *blocks, plan.device) : std::string();
  if (tactic.empty()) return {};
  return {std::move(blocks), std::move(tactic)};
}

}  // namespace tenon::plan

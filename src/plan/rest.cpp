// SPDX-License-Identifier: Apache-2.0
#include "plan/rest.h"

#include <tenon/error.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ir/dim_program.h"
#include "ops/control_flow.h"
#include "ops/op.h"

namespace tenon::plan {
namespace {

constexpr int64_t usual_size = 64;  // that parts are tuned for: of what data decides nothing else is known

bool is_unknown(const ir::Dim& dim) { return dim.str().find('?') != std::string::npos; }
bool is_known(const ir::Value& value) {
  return value.shape && size_of(value.dtype) > 0 && std::none_of(value.shape->begin(), value.shape->end(), is_unknown);
}

/// Cuts the rest into rounds: a part of nodes whose sizes follow from those of what they read, and one of nodes that
/// say sizes, which the next round reads.
class Cutter {
 public:
  Cutter(const Plan& plan, const ir::Graph& rest) : plan_(plan), graph_(rest), rounds_(rest.values.size(), 0) {
    for (const ir::Value& value : graph_.values) slots_[value.name] = slots_.size();
  }

  Rest run() {
    for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph_.nodes.size()); ++id) enter(id);
    Rest rest;
    rest.slots = graph_.values.size();
    rest.inputs = slots_of(graph_, graph_.inputs), rest.outputs = slots_of(graph_, graph_.outputs);
    for (int round = 0; round <= last_; ++round)
      for (const bool open : {false, true}) {
        RestPart part = part_of(round, open);
        if (part.graph.nodes.empty()) continue;
        if (!open) part.planned = planned_of(part.graph);
        rest.parts.push_back(std::move(part));
      }
    return rest;
  }

 private:
  struct Place {
    int round = 0;
    bool open = false;
  };

  /// Decides where a node runs. Nodes come behind those that they read.
  void enter(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    Place place;
    bool known = ops::bodies_of(node).empty();
    for (const ir::ValueId input : node.inputs) {
      if (input == ir::no_value) continue;
      place.round = std::max(place.round, rounds_[static_cast<size_t>(input)]);
      known = known && (graph_.value(input).is_constant() || is_known(graph_.value(input)));
    }
    if (known) ops::infer(graph_, id);
    for (const ir::ValueId output : node.outputs)
      known = known && (output == ir::no_value || is_known(graph_.value(output)));
    place.open = !known;
    for (const ir::ValueId output : node.outputs) {
      if (output == ir::no_value) continue;
      rounds_[static_cast<size_t>(output)] = place.round + place.open;
      if (place.open) open_value(graph_.value(output));
    }
    places_.push_back(place);
    last_ = std::max(last_, place.round);
  }

  static std::string symbol_name(int at) { return "d" + std::to_string(at); }

  /// Its sizes are symbols from here on, and its elements are not known.
  void open_value(ir::Value& value) {
    value.content.reset();
    if (!value.shape) return;
    for (ir::Dim& dim : *value.shape)
      if (!dim.is_constant()) dim = ir::Dim::symbol(symbol_name(symbols_++));
  }

  /// What only says sizes is done again by every part that asks: there it is a function of its inputs' sizes.
  bool is_shape_arithmetic(const ir::Node& node) const {
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](ir::ValueId output) { return output == ir::no_value || graph_.value(output).content; });
  }

  std::vector<size_t> slots_of(const ir::Graph& graph, const std::vector<ir::ValueId>& values) const {
    std::vector<size_t> slots;
    for (const ir::ValueId id : values) slots.push_back(slots_.at(graph.value(id).name));
    return slots;
  }

  RestPart part_of(int round, bool open) const {
    RestPart part{graph_, {}, {}};
    ir::Graph& graph = part.graph;
    const auto is_in = [&](ir::NodeId id) {
      return places_[static_cast<size_t>(id)].round == round && places_[static_cast<size_t>(id)].open == open;
    };
    graph.inputs.clear(), graph.outputs.clear(), graph.output_names.clear();
    for (ir::ValueId id = 0; id < static_cast<ir::ValueId>(graph_.values.size()); ++id) {
      const ir::Value& value = graph_.value(id);
      if (value.producer == ir::no_node || !is_in(value.producer)) continue;
      if (graph_.is_output(id) || std::any_of(value.users.begin(), value.users.end(), [&](ir::NodeId user) {
            return !is_in(user) || is_shape_arithmetic(graph_.node(user));
          }))
        graph.outputs.push_back(id), graph.output_names.push_back(value.name);
    }
    for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph_.nodes.size()); ++id) {
      const Place& place = places_[static_cast<size_t>(id)];
      const bool again = !open && !place.open && place.round < round && is_shape_arithmetic(graph_.node(id));
      if (!is_in(id) && !again) graph.remove(id);
    }
    for (ir::ValueId id = 0; id < static_cast<ir::ValueId>(graph.values.size()); ++id)
      if (graph.value(id).producer == ir::no_node && !graph.value(id).is_constant()) graph.inputs.push_back(id);
    graph.tidy();
    std::erase_if(graph.inputs, [&](ir::ValueId id) { return graph.value(id).users.empty(); });
    for (const ir::ValueId input : graph.inputs) graph.value(input).content.reset();
    graph.tidy();
    part.takes = slots_of(graph, graph.inputs), part.gives = slots_of(graph, graph.outputs);
    return part;
  }

  /// Of each input, where all that data decides has the usual size.
  Shapes usual_shapes(const ir::Graph& graph) const {
    ir::DimProgram program;
    for (int symbol = 0; symbol < symbols_; ++symbol) program.symbol(symbol_name(symbol));
    std::map<std::string, std::vector<int>> places;
    for (const ir::ValueId input : graph.inputs)
      for (const ir::Dim& dim : *graph.value(input).shape) places[graph.value(input).name].push_back(program.add(dim));
    std::vector<int64_t> sizes;
    program.evaluate(std::vector<int64_t>(static_cast<size_t>(symbols_), usual_size), sizes);
    Shapes shapes;
    for (const ir::ValueId input : graph.inputs) {
      const std::string& name = graph.value(input).name;
      shapes[name] = {};
      for (const int place : places[name])
        shapes[name].push_back(place == ir::DimProgram::none ? usual_size : sizes[static_cast<size_t>(place)]);
    }
    return shapes;
  }

  /// Sizes of inputs become symbols of their own, those that are the same, the same.
  static void name_sizes(ir::Graph& graph) {
    std::map<std::string, ir::Dim> names;
    for (const ir::ValueId input : graph.inputs)
      for (ir::Dim& dim : *graph.value(input).shape)
        if (!dim.is_constant())
          dim = names.try_emplace(dim.str(), ir::Dim::symbol("s" + std::to_string(names.size()))).first->second;
    for (ir::Value& value : graph.values)
      if (value.producer != ir::no_node) value.shape.reset(), value.content.reset();
    ops::infer(graph);
  }

  /// null: its sizes do not follow after all.
  std::unique_ptr<RestPlan> planned_of(ir::Graph graph) const try {
    auto made = std::make_unique<RestPlan>();
    Plan& plan = made->plan;
    plan.shapes = usual_shapes(graph);
    name_sizes(graph);
    plan.graph = std::move(graph);
    plan.threads = plan_.threads, plan.goal = host_goal(plan_);
    if (!is_static(concretise(plan.graph, plan.shapes))) return nullptr;
    return made;
  } catch (const Error&) {
    return nullptr;
  }

  const Plan& plan_;
  ir::Graph graph_;
  std::vector<int> rounds_;    // by value: in which it is there
  std::vector<Place> places_;  // by node
  std::map<std::string, size_t> slots_;
  int last_ = 0, symbols_ = 0;
};

}  // namespace

std::shared_ptr<const Rest> rest_of(const Plan& plan, const ir::Graph& rest, const std::vector<Steps>& steps,
                                    std::shared_ptr<backends::WeightCache> weights) {
  auto made = std::make_shared<Rest>(Cutter(plan, rest).run());
  size_t at = 0;
  for (RestPart& part : made->parts) {
    if (!part.planned) continue;
    part.planned->shared.share(weights);
    if (at < steps.size()) part.planned->plan.steps = {steps[at++]};
    else part.planned->plan.records = plan.records;
  }
  return made;
}

std::vector<Steps> make_rest_steps(const Plan& plan, const ir::Graph& rest) {
  std::vector<Steps> steps;
  for (RestPart& part : Cutter(plan, rest).run().parts) {
    if (!part.planned) continue;
    part.planned->plan.records = plan.records;
    make_steps(part.planned->plan);
    steps.push_back(std::move(part.planned->plan.steps.at(0)));
  }
  return steps;
}

}  // namespace tenon::plan

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "ops/op.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr size_t most_inputs = 8, most_steps = 32;

/// What an op is called in a program, and its attributes in the order in which they are written.
struct Instruction {
  const char* word;
  std::vector<std::pair<const char*, float>> attributes;
};

const Instruction* instruction(const ir::Node& node) {
  static const std::map<std::string, Instruction> table{
      {"Add", {"add", {}}},
      {"Sub", {"sub", {}}},
      {"Mul", {"mul", {}}},
      {"Div", {"div", {}}},
      {"Max", {"max", {}}},
      {"Min", {"min", {}}},
      {"Pow", {"pow", {}}},
      {"Relu", {"relu", {}}},
      {"Sigmoid", {"sigmoid", {}}},
      {"Tanh", {"tanh", {}}},
      {"Silu", {"silu", {}}},
      {"HardSwish", {"hardswish", {}}},
      {"Mish", {"mish", {}}},
      {"Softplus", {"softplus", {}}},
      {"Exp", {"exp", {}}},
      {"Log", {"log", {}}},
      {"Sqrt", {"sqrt", {}}},
      {"Neg", {"neg", {}}},
      {"Abs", {"abs", {}}},
      {"Reciprocal", {"reciprocal", {}}},
      {"Erf", {"erf", {}}},
      {"Floor", {"floor", {}}},
      {"Ceil", {"ceil", {}}},
      {"Sin", {"sin", {}}},
      {"Cos", {"cos", {}}},
      {"Clip", {"clip", {}}},
      {"HardSigmoid", {"hardsigmoid", {{"alpha", 0.2f}, {"beta", 0.5f}}}},
      {"LeakyRelu", {"leakyrelu", {{"alpha", 0.01f}}}},
      {"Elu", {"elu", {{"alpha", 1.0f}}}}};
  static const Instruction gelu{"gelu", {}}, gelu_tanh{"gelutanh", {}};
  if (node.op == "Gelu") return node.text("approximate", "none") == "tanh" ? &gelu_tanh : &gelu;
  const auto found = table.find(node.op);
  if (found == table.end()) return nullptr;
  const bool binary = node.op == "Max" || node.op == "Min";
  return binary && node.inputs.size() != 2 ? nullptr : &found->second;
}

std::string literal(float number) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr};
}

class Program {
 public:
  Program(ir::Graph& graph, ir::NodeId root)
      : graph_(graph), root_(root), shape_(*graph.value(graph.node(root).outputs[0]).shape) {}

  bool build() {
    collect(root_);
    if (nodes_.size() < 2) return false;
    size_t rank = 0;
    for (ir::ValueId id : inputs_) rank = std::max(rank, shape_of(graph_, id)->size());
    if (rank != shape_.size()) return false;
    for (size_t at = 0; at < inputs_.size(); ++at) registers_[inputs_[at]] = "%" + std::to_string(at);
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) write(graph_.node(*node));
    return true;
  }

  void install() {
    std::vector<std::string> origins;
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node)
      origins = joined(origins, graph_.node(*node).origins);
    const ir::ValueId old = graph_.node(root_).outputs[0];
    const ir::ValueId result =
        graph_.apply("Elementwise", inputs_, {{"program", lines_}}, origins, graph_.value(old).name);
    graph_.value(result).shape = graph_.value(old).shape;
    graph_.value(result).dtype = DType::f32;
    graph_.replace_uses(old, result);
    for (ir::NodeId node : nodes_) graph_.remove(node);
  }

  static bool fits(const ir::Graph& graph, const ir::Node& node) {
    if (!instruction(node) || node.outputs.size() != 1) return false;
    const ir::Value& result = graph.value(node.outputs[0]);
    if (result.dtype != DType::f32 || !result.shape) return false;
    for (size_t at = 0; at < node.inputs.size(); ++at) {
      const ir::ValueId id = node.inputs[at];
      if (id == ir::no_value) continue;
      if (graph.value(id).dtype != DType::f32 || !graph.value(id).shape) return false;
      if (node.op == "Clip" && at > 0 && !number(graph, id)) return false;
    }
    return true;
  }

 private:
  static std::optional<float> number(const ir::Graph& graph, ir::ValueId id) {
    const auto found = scalar(graph, id);
    return found && std::isfinite(*found) ? std::optional<float>(static_cast<float>(*found)) : std::nullopt;
  }
  bool is_literal(ir::ValueId id) const { return number(graph_, id) && shape_of(graph_, id)->size() <= shape_.size(); }

  /// Consumers stand before producers in nodes_. An inner node is taken where only this tree reads it, at the full
  /// shape.
  void collect(ir::NodeId id) {
    nodes_.push_back(id);
    for (ir::ValueId input : graph_.node(id).inputs) {
      if (input == ir::no_value || is_literal(input)) continue;
      const ir::NodeId maker = graph_.value(input).producer;
      const bool inner = maker != ir::no_node && graph_.only_user(input) == id &&
                         *graph_.value(input).shape == shape_ && fits(graph_, graph_.node(maker)) &&
                         nodes_.size() < most_steps && inputs_.size() + 2 < most_inputs;
      if (inner) collect(maker);
      else if (std::find(inputs_.begin(), inputs_.end(), input) == inputs_.end()) inputs_.push_back(input);
    }
  }

  void write(const ir::Node& node) {
    const Instruction& what = *instruction(node);
    std::string line = what.word;
    if (node.op == "Clip") {
      line += " " + operand(node.inputs[0]);
      for (size_t at = 1; at < 3; ++at) {
        const bool given = at < node.inputs.size() && node.inputs[at] != ir::no_value;
        const float limit = std::numeric_limits<float>::max();
        line += " " + (given ? operand(node.inputs[at]) : literal(at == 1 ? -limit : limit));
      }
    } else {
      for (ir::ValueId input : node.inputs) line += " " + operand(input);
    }
    for (const auto& [name, otherwise] : what.attributes) line += " " + literal(node.real(name, otherwise));
    registers_[node.outputs[0]] = "%" + std::to_string(inputs_.size() + lines_.size());
    lines_.push_back(std::move(line));
  }
  std::string operand(ir::ValueId id) const {
    const auto found = registers_.find(id);
    return found != registers_.end() ? found->second : literal(*number(graph_, id));
  }

  ir::Graph& graph_;
  ir::NodeId root_;
  ir::Shape shape_;
  std::vector<ir::NodeId> nodes_;
  std::vector<ir::ValueId> inputs_;
  std::map<ir::ValueId, std::string> registers_;
  std::vector<std::string> lines_;
};

}  // namespace

bool fuse_elementwise(ir::Graph& graph) {
  if (!ops::find("Elementwise")) return false;
  bool changed = false;
  // From the end, so that each tree is taken from its root.
  for (auto id = static_cast<ir::NodeId>(graph.nodes.size()); id-- > 0;) {
    if (!graph.node(id).alive || !Program::fits(graph, graph.node(id))) continue;
    Program program(graph, id);
    if (!program.build()) continue;
    program.install();
    changed = true;
  }
  return changed;
}

}  // namespace tenon::passes

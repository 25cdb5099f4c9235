#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

/// An op is one file: its arity, type inference and reference kernel, registered by TENON_OP at static initialisation.
namespace tenon::expr {
enum class Id : uint8_t;
}

namespace tenon::ops {

/// An expression (ops/expression.h) with its parameters.
struct Formula {
  expr::Id id;
  float alpha = 0, beta = 0;
};
/// The number in an input of a node that is a constant of one element; nullopt for others.
using InputNumber = std::function<std::optional<float>(size_t input)>;

/// What inference sees: the node, and what is known of its inputs. It sets the type of every output.
class Inference {
 public:
  Inference(ir::Graph& graph, ir::NodeId node) : graph_(graph), node_(node) {}
  const ir::Node& node() const { return graph_.node(node_); }
  size_t inputs() const { return node().inputs.size(); }
  size_t outputs() const { return node().outputs.size(); }
  bool has(size_t input) const { return input < inputs() && node().inputs[input] != ir::no_value; }
  DType dtype(size_t input) const;
  /// nullptr while unknown.
  const ir::Shape* shape(size_t input) const;
  const Tensor* constant(size_t input) const;
  /// Elements of a small integer tensor, as far as known: from a constant or from shape arithmetic.
  std::optional<std::vector<ir::Dim>> content(size_t input) const;
  /// Integers of a constant of type i32 or i64; nullopt when not constant.
  std::optional<std::vector<int64_t>> integers(size_t input) const;
  void set(size_t output, DType dtype, std::optional<ir::Shape> shape);
  void set_content(size_t output, std::vector<ir::Dim> content);
  /// A size nobody knows yet: another symbol at each call.
  ir::Dim unknown();
  [[noreturn]] void fail(const std::string& why, const std::string& hint = "") const;

 private:
  ir::Graph& graph_;
  ir::NodeId node_;
  int unknowns_ = 0;
};

/// What a reference kernel sees. Absent inputs are empty tensors.
class Evaluation {
 public:
  using Run = std::function<std::vector<Tensor>(const ir::Graph&, std::vector<Tensor>)>;
  Evaluation(const ir::Node& node, std::span<const Tensor> inputs, std::span<Tensor> outputs, const Run& run)
      : node_(node), inputs_(inputs), outputs_(outputs), run_(run) {}
  const ir::Node& node() const { return node_; }
  size_t inputs() const { return inputs_.size(); }
  size_t outputs() const { return outputs_.size(); }
  bool has(size_t input) const { return input < inputs_.size() && static_cast<bool>(inputs_[input]); }
  const Tensor& input(size_t at) const { return inputs_[at]; }
  /// The output to fill: memory the caller planned where it has the same type and sizes, else a new tensor.
  /// nullptr-safe: wants(at) first for optional outputs.
  Tensor& output(size_t at, DType dtype, const Dims& dims);
  void set(size_t at, Tensor tensor) { outputs_[at] = std::move(tensor); }
  bool wants(size_t output) const { return output < node_.outputs.size() && node_.outputs[output] != ir::no_value; }
  /// Integers of an i32 or i64 input.
  std::vector<int64_t> integers(size_t input) const;
  /// Runs a subgraph on its inputs.
  std::vector<Tensor> run(const ir::Graph& graph, std::vector<Tensor> inputs) const {
    return run_(graph, std::move(inputs));
  }
  [[noreturn]] void fail(const std::string& why, const std::string& hint = "") const;

 private:
  const ir::Node& node_;
  std::span<const Tensor> inputs_;
  std::span<Tensor> outputs_;
  const Run& run_;
};

enum class Kind { general, elementwise, shape_only /* reads only types */, view /* same elements, other shape */ };

struct Op {
  ir::OpId id;
  int min_inputs, max_inputs;  // max -1: any number
  int min_outputs, max_outputs;
  void (*infer)(Inference&);
  void (*evaluate)(Evaluation&);
  Kind kind = Kind::general;
  /// The expression of its first inputs that a node computes; nullopt where it computes none. Null: it never does.
  std::optional<Formula> (*formula)(const ir::Node&, const InputNumber&) = nullptr;
};

/// nullptr when there is no such op.
const Op* find(const ir::OpId& op);
std::vector<ir::OpId> all();
struct Registrar {
  explicit Registrar(Op op);
};
#define TENON_OP_NAME2(line) op_registrar_##line
#define TENON_OP_NAME(line) TENON_OP_NAME2(line)
/// TENON_OP({"Relu", 1, 1, 1, 1, infer, evaluate, Kind::elementwise});
#define TENON_OP(...) static const ::tenon::ops::Registrar TENON_OP_NAME(__COUNTER__)(::tenon::ops::Op __VA_ARGS__)

/// Infers every node's output types in order, and folds shape arithmetic into `content`. Throws Error(invalid_model)
/// naming the node.
void infer(ir::Graph& graph);
void infer(ir::Graph& graph, ir::NodeId node);
/// Runs one node by its reference kernel.
std::vector<Tensor> evaluate(const ir::Node& node, std::span<const Tensor> inputs);
/// The same into tensors of the caller: one whose type and sizes fit is filled, another is replaced.
void evaluate(const ir::Node& node, std::span<const Tensor> inputs, std::span<Tensor> outputs);
/// Runs a whole graph by reference kernels: the oracle of all tests, and the way of graphs whose shapes depend on data.
std::vector<Tensor> interpret(const ir::Graph& graph, std::vector<Tensor> inputs);

}  // namespace tenon::ops

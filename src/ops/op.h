// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/schema.h"

/// An op is one file: its arity, attributes, type inference, reference kernel and traits, registered by TENON_OP at
/// static initialisation.
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

/// Raises the error of a node that is invalid.
[[noreturn]] void fail_at(const ir::Node& node, const std::string& why, const std::string& hint = "");

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
  /// Integers of a constant; nullopt when not constant. Fails the node where they are neither i32 nor i64.
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
  /// Fails the node where it has fewer inputs.
  const Tensor& input(size_t at) const {
    if (at >= inputs_.size()) fail("input " + std::to_string(at) + " is absent");
    return inputs_[at];
  }
  /// The output to fill: memory the caller planned where it has the same type and sizes, else a new tensor.
  /// nullptr-safe: wants(at) first for optional outputs.
  Tensor& output(size_t at, DType dtype, const Dims& dims);
  void set(size_t at, Tensor tensor) { slot(at) = std::move(tensor); }
  bool wants(size_t output) const { return output < node_.outputs.size() && node_.outputs[output] != ir::no_value; }
  /// Integers of an i32 or i64 input.
  std::vector<int64_t> integers(size_t input) const;
  /// Runs a subgraph on its inputs.
  std::vector<Tensor> run(const ir::Graph& graph, std::vector<Tensor> inputs) const {
    return run_(graph, std::move(inputs));
  }
  [[noreturn]] void fail(const std::string& why, const std::string& hint = "") const;

 private:
  /// Fails the node where it has fewer outputs.
  Tensor& slot(size_t at) const {
    if (at >= outputs_.size()) fail("output " + std::to_string(at) + " is absent");
    return outputs_[at];
  }

  const ir::Node& node_;
  std::span<const Tensor> inputs_;
  std::span<Tensor> outputs_;
  const Run& run_;
};

/// What others ask about an op.
enum class Trait : uint64_t {
  elementwise = 1 << 0,       // an element of the output comes from one of each input, which are broadcast
  view = 1 << 1,              // the elements of input 0 in the same order, in another shape
  moves = 1 << 2,             // its work is to move data
  converts = 1 << 3,          // the same numbers in another type
  product = 1 << 4,           // a convolution or a product of matrices, or several
  quantised = 1 << 5,         // computes on integers that stand for numbers
  same_type = 1 << 6,         // output 0 is of the element type of the data
  same_rank = 1 << 7,         // output 0 has as many axes as the data
  same_scale = 1 << 8,        // quantised outputs have the scale of the inputs
  int8 = 1 << 9,              // may be computed in INT8 between layers that are
  half = 1 << 10,             // of the type of its input, and as good in 16-bit floats
  any_float = 1 << 11,        // gives whichever float the attribute output_dtype says
  all_data = 1 << 12,         // every input is data, not input 0 alone
  random = 1 << 13,           // not the same from run to run
  convolution = 1 << 14,      // a product over windows of spatial axes, weights [outputs, inputs of a group, window]
  integer_form = 1 << 15,     // a product of input 0 and weights, input 1, that is also there on bytes
  window = 1 << 16,           // an output comes from neighbours along the spatial axes
  global = 1 << 17,           // over all spatial axes at once
  joins = 1 << 18,            // inputs one behind the other along "axis"
  splits = 1 << 19,           // pieces of input 0 along "axis"
  slices = 1 << 20,           // from "starts", input 1, of "axes", input 3, by "steps", input 4
  permutes = 1 << 21,         // axes in the order "perm"
  any_order = 1 << 22,        // kernels take inputs 0 to 2, and give the output, with axes that lie in any order
  softmax = 1 << 23,          // shares of exponentials along an axis, or their logarithms
  logarithm = 1 << 24,        // gives logarithms
  centred = 1 << 25,          // subtracts the mean
  tuples = 1 << 26,           // its indices are tuples, on their last axis
  quantises = 1 << 27,        // stores floats as integers of a scale
  dequantises = 1 << 28,      // and back
  general_product = 1 << 29,  // with transA, transB, alpha and beta
  group = 1 << 30,            // stands for several nodes
  updates = 1U << 31,         // gives input 0 with some elements replaced, and may do so in its place
  any_result = 1ULL << 32,    // kernels of devices give the output with axes in any order
  finds = 1ULL << 33,         // gives what it finds in input 0: of each element a place, or it itself, at most
};

/// What an op takes of many numbers.
enum class Reduction : uint8_t { none, sum, product, mean, largest, smallest, l1, l2, squares, log_sum, log_sum_exp };

/// What is true of an op; `a | b` is both.
class Traits {
 public:
  using OfNode = Traits (*)(const ir::Node&);

  constexpr Traits() = default;
  constexpr Traits(Trait trait) : bits_(static_cast<uint64_t>(trait)) {}
  constexpr Traits(Reduction reduction) : reduction_(reduction) {}
  /// Inputs that hold weights of convolutions.
  static constexpr Traits weights_at(std::initializer_list<int> inputs) {
    Traits traits;
    for (const int input : inputs) traits.weights_ |= static_cast<uint8_t>(1 << input);
    return traits;
  }
  /// The input that holds the scale of the output's integers; their zero point is the next.
  static constexpr Traits output_scale_at(int input) {
    Traits traits;
    traits.output_scale_ = static_cast<int8_t>(input);
    return traits;
  }
  /// How many inputs it has in the standard, where passes add others.
  static constexpr Traits standard_inputs(int count) {
    Traits traits;
    traits.standard_inputs_ = static_cast<int8_t>(count);
    return traits;
  }
  /// What is true of some nodes of it, by their attributes.
  static constexpr Traits of_some(OfNode some) {
    Traits traits;
    traits.of_node_ = some;
    return traits;
  }

  constexpr bool has(Trait trait) const { return bits_ & static_cast<uint64_t>(trait); }
  constexpr Reduction reduction() const { return reduction_; }
  constexpr bool is_weight(size_t input) const { return input < 8 && (weights_ >> input & 1); }
  constexpr int output_scale() const { return output_scale_; }        // -1: none
  constexpr int standard_inputs() const { return standard_inputs_; }  // -1: all
  /// With what is true of this node alone.
  Traits of(const ir::Node& node) const { return of_node_ ? *this | of_node_(node) : *this; }
  constexpr Traits operator|(const Traits& other) const {
    Traits both = *this;
    both.bits_ |= other.bits_, both.weights_ |= other.weights_;
    if (other.reduction_ != Reduction::none) both.reduction_ = other.reduction_;
    if (other.output_scale_ >= 0) both.output_scale_ = other.output_scale_;
    if (other.standard_inputs_ >= 0) both.standard_inputs_ = other.standard_inputs_;
    if (other.of_node_) both.of_node_ = other.of_node_;
    return both;
  }

 private:
  uint64_t bits_ = 0;
  Reduction reduction_ = Reduction::none;
  uint8_t weights_ = 0;
  int8_t output_scale_ = -1, standard_inputs_ = -1;
  OfNode of_node_ = nullptr;
};
constexpr Traits operator|(Trait a, Trait b) { return Traits(a) | Traits(b); }
constexpr Traits operator|(Trait a, Reduction b) { return Traits(a) | Traits(b); }

struct OpDef {
  ir::OpId id;
  int min_inputs, max_inputs;  // max -1: any number
  int min_outputs, max_outputs;
  void (*infer)(Inference&);
  void (*evaluate)(Evaluation&);
  AttributeDefs attributes = {};
  Traits traits = {};
  /// The expression of its first inputs that a node computes; nullopt where it computes none. Null: it never does.
  std::optional<Formula> (*formula)(const ir::Node&, const InputNumber&) = nullptr;
  bool checks_attributes = true;  // false: its plugin takes any, and checks them itself
};

/// nullptr when there is no such op.
const OpDef* find(const ir::OpId& op);
/// Whether there is such an op, and it has the trait.
bool has_trait(const ir::OpId& op, Trait trait);
/// The same of a node, with what its attributes make true.
bool has_trait(const ir::Node& node, Trait trait);
/// None of an op that is not there.
Traits traits_of(const ir::OpId& op);
/// All ops in order of their names.
std::vector<const OpDef*> all();
struct Registrar {
  explicit Registrar(OpDef op);
};
#define TENON_OP_NAME2(line) op_registrar_##line
#define TENON_OP_NAME(line) TENON_OP_NAME2(line)
/// TENON_OP("Elu", 1, 1, 1, 1, infer, evaluate, {attr::real("alpha")}, Trait::elementwise | Trait::half);
#define TENON_OP(...) static const ::tenon::ops::Registrar TENON_OP_NAME(__COUNTER__)(::tenon::ops::OpDef{__VA_ARGS__})

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

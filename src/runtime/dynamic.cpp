// SPDX-License-Identifier: Apache-2.0
#include "runtime/dynamic.h"

#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "backends/backend.h"
#include "ops/op.h"

namespace tenon::runtime {
namespace {

constexpr int64_t most_deciding =
    64;  // elements of an integer operand that may decide sizes, such as the target of a Reshape

constexpr int64_t few_elements = 1 << 14;  // of all operands: waking a thread pool takes longer than such a node

bool may_decide_sizes(const Tensor& tensor) {
  return (tensor.dtype() == DType::i64 || tensor.dtype() == DType::i32) && tensor.elements() <= most_deciding;
}

bool is_dense_array(const Tensor& tensor) { return !tensor || size_of(tensor.dtype()) > 0; }

Tensor allocate(const ir::Node& node, const backends::Operand& operand) {
  try {
    return Tensor(operand.dtype, operand.dims);
  } catch (const Error& error) {
    throw Error(error.code(), error.what(),
                {.where = "node " + node.label() + " (" + node.op + ")",
                 .why = error.why(),
                 .hint = error.hint(),
                 .node = node.label()});
  }
}

}  // namespace

/// A node made ready for operands of certain sizes; without a step, the reference kernel runs it.
struct DynamicProgram::Prepared {
  ir::Graph graph;  // the node alone
  std::vector<Dims> dims;
  std::vector<DType> dtypes;
  std::vector<std::vector<std::byte>> deciding;  // bytes of the operands whose elements the step was made for
  backends::Problem problem;
  std::unique_ptr<backends::Step> step;
  std::string kernel = "ref";
  ThreadPool* thread_pool = nullptr;
  Tensor workspace;
  std::vector<std::byte*> inputs, outputs;

  bool matches(std::span<const Tensor> operands) const {
    for (size_t at = 0; at < operands.size(); ++at) {
      if (operands[at].dtype() != dtypes[at] || !(operands[at].dims() == dims[at])) return false;
      if (!deciding[at].empty() && std::memcmp(deciding[at].data(), operands[at].data(), deciding[at].size()) != 0)
        return false;
    }
    return true;
  }
};

DynamicProgram::DynamicProgram(const ir::Graph& graph, const plan::Plan& plan, ThreadPool& thread_pool)
    : graph_(graph),
      plan_(plan),
      thread_pool_(thread_pool),
      prepared_(graph.nodes.size()),
      times_(graph.nodes.size(), 0) {}
DynamicProgram::~DynamicProgram() = default;

std::unique_ptr<DynamicProgram::Prepared> DynamicProgram::prepare(ir::NodeId id, std::span<const Tensor> operands) {
  const ir::Node& node = graph_.node(id);
  auto prepared = std::make_unique<Prepared>();
  std::vector<ir::ValueId> inputs, outputs;
  for (size_t at = 0; at < operands.size(); ++at) {
    const Tensor& operand = operands[at];
    prepared->dims.push_back(operand.dims());
    prepared->dtypes.push_back(operand.dtype());
    prepared->deciding.emplace_back();
    if (!operand) {
      inputs.push_back(ir::no_value);
      continue;
    }
    const bool constant = graph_.value(node.inputs[at]).is_constant();
    if (constant || may_decide_sizes(operand)) {
      inputs.push_back(prepared->graph.add_constant("", constant ? operand : operand.copy()));
      if (constant) continue;
      const auto* bytes = operand.data<std::byte>();
      prepared->deciding.back().assign(bytes, bytes + operand.bytes());
    } else {
      ir::Shape shape;
      for (int64_t size : operand.dims()) shape.emplace_back(size);
      inputs.push_back(prepared->graph.add_value("", operand.dtype(), shape));
      prepared->graph.inputs.push_back(inputs.back());
    }
  }
  for (ir::ValueId output : node.outputs)
    outputs.push_back(output == ir::no_value ? ir::no_value : prepared->graph.add_value(""));
  prepared->graph.add_node(node.op, inputs, outputs, node.attributes, node.origins);
  if (backends::kernels_for(node.op).size() < 2 || !std::all_of(operands.begin(), operands.end(), is_dense_array))
    return prepared;

  ops::infer(prepared->graph);
  const ir::Graph& graph = prepared->graph;
  backends::Problem& problem = prepared->problem;
  problem.node = &graph.node(0);
  backends::host().constrain(problem, plan::host_goal(plan_));
  for (size_t at = 0; at < operands.size(); ++at) {
    backends::Operand operand{
        operands[at].dtype(), operands[at].dims(), backends::dense_strides(operands[at].dims()), {}};
    if (operand) operand.constant = graph.value(inputs[at]).constant;
    problem.inputs.push_back(std::move(operand));
  }
  for (ir::ValueId output : outputs) {
    backends::Operand operand;
    if (output != ir::no_value) {
      const ir::Value& value = graph.value(output);
      if (!value.shape || !ir::is_constant(*value.shape) || size_of(value.dtype) == 0) return prepared;
      operand.dtype = value.dtype;
      for (const ir::Dim& dim : *value.shape) operand.dims.push_back(dim.value());
      operand.strides = backends::dense_strides(operand.dims);
    }
    problem.outputs.push_back(std::move(operand));
  }
  int64_t elements = 0;
  for (const auto* list : {&problem.inputs, &problem.outputs})
    for (const backends::Operand& operand : *list)
      if (operand) elements += operand.dims.elements();
  prepared->thread_pool = elements <= few_elements ? &alone_ : &thread_pool_;
  problem.threads = prepared->thread_pool->threads();
  const backends::Kernel& kernel = plan::choose(problem, plan_.records);
  if (&kernel == &backends::reference_kernel()) return prepared;
  prepared->kernel = kernel.name;
  prepared->step = kernel.make(problem);
  prepared->workspace = Tensor(DType::u8, {static_cast<int64_t>(prepared->step->workspace_bytes())});
  prepared->inputs.resize(operands.size());
  prepared->outputs.resize(outputs.size());
  return prepared;
}

void DynamicProgram::evaluate(ir::NodeId id, std::span<const Tensor> operands, std::span<Tensor> results) {
  std::unique_ptr<Prepared>& prepared = prepared_[id];
  if (!prepared || !prepared->matches(operands)) prepared = prepare(id, operands);
  if (!prepared->step) {
    std::vector<Tensor> values = ops::evaluate(graph_.node(id), operands);
    std::move(values.begin(), values.end(), results.begin());
    return;
  }
  for (size_t at = 0; at < operands.size(); ++at)
    prepared->inputs[at] = const_cast<std::byte*>(operands[at].data<std::byte>());
  for (size_t at = 0; at < results.size(); ++at) {
    const backends::Operand& operand = prepared->problem.outputs[at];
    if (operand) results[at] = allocate(graph_.node(id), operand);
    prepared->outputs[at] = results[at].data<std::byte>();
  }
  prepared->thread_pool->run(
      [](void* pointer, int worker) {
        Prepared& prepared = *static_cast<Prepared*>(pointer);
        prepared.step->run(prepared.inputs.data(), prepared.outputs.data(),
                           prepared.thread_pool->worker(worker, prepared.workspace.data<std::byte>()));
      },
      prepared.get());
}

std::vector<Tensor> DynamicProgram::run(std::span<const Tensor> inputs) {
  using Clock = std::chrono::steady_clock;
  const FlushDenormals flush;
  std::vector<Tensor> values(graph_.values.size());
  std::vector<size_t> uses(graph_.values.size());
  for (size_t id = 0; id < graph_.values.size(); ++id) {
    values[id] = graph_.values[id].constant;
    uses[id] = graph_.values[id].users.size();
  }
  for (size_t at = 0; at < inputs.size(); ++at) values[graph_.inputs[at]] = inputs[at];
  for (ir::ValueId output : graph_.outputs) ++uses[output];
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph_.nodes.size()); ++id) {
    const ir::Node& node = graph_.node(id);
    if (!node.alive) continue;
    const auto begin = Clock::now();
    std::vector<Tensor> operands, results(node.outputs.size());
    for (ir::ValueId input : node.inputs) operands.push_back(input == ir::no_value ? Tensor() : values[input]);
    evaluate(id, operands, results);
    for (size_t at = 0; at < node.outputs.size(); ++at)
      if (node.outputs[at] != ir::no_value) values[node.outputs[at]] = std::move(results[at]);
    for (ir::ValueId input : node.inputs)
      if (input != ir::no_value && --uses[input] == 0) values[input] = Tensor();
    times_[id] += std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }
  std::vector<Tensor> results;
  for (ir::ValueId output : graph_.outputs) results.push_back(values[output]);
  return results;
}

std::vector<LayerTime> DynamicProgram::profile(std::span<const Tensor> inputs, int iterations) {
  std::fill(times_.begin(), times_.end(), 0);
  for (int iteration = 0; iteration < iterations; ++iteration) run(inputs);
  std::vector<LayerTime> layers;
  for (size_t id = 0; id < times_.size(); ++id) {
    const ir::Node& node = graph_.nodes[id];
    if (node.alive)
      layers.push_back({node.op + " " + node.label(), node.origins, prepared_[id] ? prepared_[id]->kernel : "ref",
                        times_[id] / std::max(1, iterations)});
  }
  return layers;
}

}  // namespace tenon::runtime

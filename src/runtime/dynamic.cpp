// SPDX-License-Identifier: Apache-2.0
#include "runtime/dynamic.h"

#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "backends/backend.h"
#include "base/faults.h"
#include "ops/control_flow.h"
#include "ops/op.h"
#include "runtime/body_program.h"

namespace tenon::runtime {
namespace {

constexpr int64_t most_deciding =
    64;  // elements of an integer operand that may decide sizes, such as the target of a Reshape

constexpr int64_t few_node_elements = 1 << 14;  // of all operands: waking a thread pool takes longer than such a node

constexpr int64_t first_work = 20'000, least_work = 1000;  // nanoseconds of a node: before its first run, and later
constexpr size_t most_variants = 512, most_packed = 2;     // of a node; those that hold weights

bool may_decide_sizes(const Tensor& tensor) {
  return (tensor.dtype() == DType::i64 || tensor.dtype() == DType::i32) && tensor.elements() <= most_deciding;
}

bool is_dense_array(const Tensor& tensor) { return !tensor || size_of(tensor.dtype()) > 0; }

/// Whether its kernels find out what the result's size is.
bool finds_size(const ir::Node& node) { return backends::kernels_for(node.op).front()->finds; }

/// Whether the result may be written over the first operand, which nobody else refers to.
bool may_update(const ir::Node& node, std::span<const Tensor> operands) {
  return ops::has_trait(node.op, ops::Trait::updates) && operands[0].is_unique();
}

Tensor allocate(const ir::Node& node, const backends::Operand& operand, TensorPool& pool) {
  try {
    return pool.tensor(operand.dtype, operand.dims);
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
  const backends::FindingStep* finding = nullptr;  // the step, where it finds the size of the result
  std::string kernel = "ref";
  ThreadPool* thread_pool = nullptr;
  std::vector<std::byte*> inputs, outputs;
  Faults faults;
  bool view = false;  // the result is the operand's memory in another shape
  bool open = false;  // sizes or kernels may follow from elements of small integer operands, which it does not know

  bool matches(std::span<const Tensor> operands) const {
    for (size_t at = 0; at < operands.size(); ++at) {
      if (operands[at].dtype() != dtypes[at] || !(operands[at].dims() == dims[at])) return false;
      if (!deciding[at].empty() && std::memcmp(deciding[at].data(), operands[at].data(), deciding[at].size()) != 0)
        return false;
    }
    return true;
  }
};

DynamicProgram::DynamicProgram(const ir::Graph& graph, const plan::Plan& plan, ThreadPool& thread_pool,
                               std::shared_ptr<backends::WeightCache> weights)
    : graph_(graph),
      plan_(plan),
      thread_pool_(thread_pool),
      weights_(std::move(weights)),
      alone_(1, thread_pool.denormals()),
      prepared_(graph.nodes.size()),
      times_(graph.nodes.size(), 0),
      rounds_(graph.nodes.size(), 0),
      expected_(graph.nodes.size(), first_work) {
  for (const ir::Node& node : graph.nodes) plain_.push_back(backends::kernels_for(node.op).size() < 2);
  for (const ir::Value& value : graph.values) uses_.push_back(value.users.size());
  for (const ir::ValueId output : graph.outputs) ++uses_[output];
}
DynamicProgram::~DynamicProgram() = default;

/// The node alone, in a graph of its own.
std::unique_ptr<DynamicProgram::Prepared> DynamicProgram::begin_prepared(ir::NodeId id,
                                                                         std::span<const Tensor> operands,
                                                                         bool by_content) const {
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
    const bool constant = graph_.value(node.inputs[at]).is_constant(), decides = !constant && may_decide_sizes(operand);
    if (constant || (decides && by_content)) {
      inputs.push_back(prepared->graph.add_constant("", constant ? operand : operand.copy()));
      if (constant) continue;
      const auto* bytes = operand.data<std::byte>();
      prepared->deciding.back().assign(bytes, bytes + operand.bytes());
    } else {
      ir::Shape shape;
      for (int64_t size : operand.dims()) shape.emplace_back(size);
      inputs.push_back(prepared->graph.add_value("", operand.dtype(), shape));
      prepared->graph.inputs.push_back(inputs.back());
      prepared->open = prepared->open || decides;
    }
  }
  for (ir::ValueId output : node.outputs)
    outputs.push_back(output == ir::no_value ? ir::no_value : prepared->graph.add_value(""));
  prepared->graph.add_node(node.op, inputs, outputs, node.attributes, node.origins);
  return prepared;
}

std::unique_ptr<DynamicProgram::Prepared> DynamicProgram::prepare(ir::NodeId id, std::span<const Tensor> operands,
                                                                  bool by_content) {
  auto prepared = begin_prepared(id, operands, by_content);
  if (!std::all_of(operands.begin(), operands.end(), is_dense_array)) return prepared;

  ops::infer(prepared->graph);
  const ir::Graph& graph = prepared->graph;
  backends::Problem& problem = prepared->problem;
  problem.node = &graph.node(0);
  backends::host().constrain(problem, plan::host_goal(plan_));
  const std::vector<ir::ValueId>&inputs = graph.node(0).inputs, &outputs = graph.node(0).outputs;
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
      const bool known = value.shape && ir::is_constant(*value.shape);
      if (size_of(value.dtype) == 0 || (!known && !finds_size(*problem.node))) return prepared;
      operand.dtype = value.dtype;
      for (size_t axis = 0; known && axis < value.shape->size(); ++axis)
        operand.dims.push_back((*value.shape)[axis].value());
      operand.strides = backends::dense_strides(operand.dims);
    }
    problem.outputs.push_back(std::move(operand));
  }
  prepared->view = ops::has_trait(problem.node->op, ops::Trait::view);
  if (prepared->view) return prepared;
  int64_t elements = 0;
  for (const auto* list : {&problem.inputs, &problem.outputs})
    for (const backends::Operand& operand : *list)
      if (operand) elements += operand.dims.elements();
  prepared->thread_pool = elements <= few_node_elements ? &alone_ : &thread_pool_;
  problem.threads = prepared->thread_pool->threads();
  problem.weights = weights_.get();
  const backends::Kernel& kernel = plan::choose(problem, plan_.records);
  if (&kernel == &backends::reference_kernel()) return prepared;
  prepared->kernel = kernel.name;
  prepared->step = kernel.make(problem);
  if (kernel.finds) prepared->finding = static_cast<const backends::FindingStep*>(prepared->step.get());
  if (const auto bytes = static_cast<int64_t>(prepared->step->workspace_bytes());
      !workspace_ || workspace_.elements() < bytes)
    workspace_ = Tensor(), workspace_ = pool_.tensor(DType::u8, {bytes});
  prepared->inputs.resize(operands.size());
  prepared->outputs.resize(outputs.size());
  return prepared;
}

void DynamicProgram::evaluate_bodies(ir::NodeId id, std::span<const Tensor> operands, std::span<Tensor> results) {
  const ops::RunBody run = [&](const ir::Graph& body, std::vector<Tensor> values) {
    std::unique_ptr<BodyProgram>& program = bodies_[&body];
    if (!program) {
      program = std::make_unique<BodyProgram>(body, plan_, thread_pool_, weights_);
      if (profiling_) program->begin_profile();
    }
    return program->run(values);
  };
  ops::evaluate(graph_.node(id), operands, results, run);
}

DynamicProgram::Prepared& DynamicProgram::prepared_for(ir::NodeId id, std::span<const Tensor> operands) {
  Variants& variants = prepared_[static_cast<size_t>(id)];
  const size_t count = variants.all.size();
  for (size_t step = 0; step < count; ++step) {
    const size_t at = (variants.last + step) % count;
    if (!variants.all[at]->matches(operands)) continue;
    variants.last = at;
    return *variants.all[at];
  }
  std::unique_ptr<Prepared> prepared = prepare(id, operands, variants.by_content);
  if (prepared->open && !prepared->step && !prepared->view) {
    // A kernel that needs no elements serves whatever they are; what needs them once does again.
    variants.by_content = true;
    prepared = prepare(id, operands, true);
  }
  const bool packs = prepared->step && prepared->step->packed_bytes() > 0;
  if (count < (packs ? most_packed : most_variants)) {
    variants.last = count;
    variants.all.push_back(std::move(prepared));
  } else {
    variants.last = (variants.last + 1) % count;
    variants.all[variants.last] = std::move(prepared);
  }
  return *variants.all[variants.last];
}

void DynamicProgram::evaluate(ir::NodeId id, std::span<const Tensor> operands, std::span<Tensor> results) {
  if (plain_[static_cast<size_t>(id)]) {
    if (may_update(graph_.node(id), operands)) results[0] = operands[0];
    return evaluate_bodies(id, operands, results);
  }
  Prepared* const prepared = &prepared_for(id, operands);
  if (prepared->view) {
    results[0] = operands[0].reshaped(prepared->problem.outputs[0].dims);
    return;
  }
  if (!prepared->step) return evaluate_plainly(*prepared, id, operands, results);
  run_step(*prepared, id, operands, results);
}

void DynamicProgram::run_step(Prepared& prepared, ir::NodeId id, std::span<const Tensor> operands,
                              std::span<Tensor> results) {
  for (size_t at = 0; at < operands.size(); ++at)
    prepared.inputs[at] = const_cast<std::byte*>(operands[at].data<std::byte>());
  int64_t& expected = expected_[static_cast<size_t>(id)];
  const auto begin = std::chrono::steady_clock::now();
  if (prepared.finding) {
    work(prepared, expected,
         [](const Prepared& own, const Worker& worker) { own.finding->find(own.inputs.data(), worker); });
    backends::Operand& operand = prepared.problem.outputs[0];
    operand.dims = prepared.finding->found(workspace_.data<std::byte>());
  }
  for (size_t at = 0; at < results.size(); ++at) {
    const backends::Operand& operand = prepared.problem.outputs[at];
    if (operand) results[at] = allocate(graph_.node(id), operand, pool_);
    prepared.outputs[at] = results[at].data<std::byte>();
  }
  work(prepared, expected,
       [](const Prepared& own, const Worker& worker) { own.step->run(own.inputs.data(), own.outputs.data(), worker); });
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  expected = std::max<int64_t>(least_work, took.count());
}

/// Calls it on the workers of the step's thread pool.
void DynamicProgram::work(Prepared& prepared, int64_t expected, PartOfStep part) {
  struct Context {
    Prepared& prepared;
    PartOfStep part;
  } context{prepared, part};
  prepared.thread_pool->run(
      [](void* pointer, const Worker& worker) {
        const auto& [own, part] = *static_cast<Context*>(pointer);
        try {
          part(own, worker);
        } catch (...) {
          own.faults.note();
        }
      },
      &context, workspace_.data<std::byte>(), expected);
  prepared.faults.rethrow();
}

/// By the reference kernel: into memory of the pool, or of the first operand where nobody else refers to that.
void DynamicProgram::evaluate_plainly(const Prepared& prepared, ir::NodeId id, std::span<const Tensor> operands,
                                      std::span<Tensor> results) {
  const ir::Node& node = graph_.node(id);
  const std::vector<backends::Operand>& outputs = prepared.problem.outputs;
  for (size_t at = 0; at < outputs.size() && outputs.size() == results.size(); ++at) {
    if (!outputs[at]) continue;
    results[at] = at == 0 && may_update(node, operands) ? operands[0] : allocate(node, outputs[at], pool_);
  }
  ops::evaluate(node, operands, results);
}

std::vector<Tensor> DynamicProgram::run(std::span<const Tensor> inputs) {
  using Clock = std::chrono::steady_clock;
  const DenormalScope scope(thread_pool_.denormals());
  values_.resize(graph_.values.size());
  for (size_t id = 0; id < values_.size(); ++id) values_[id] = graph_.values[id].constant;
  left_ = uses_;
  for (size_t at = 0; at < inputs.size(); ++at) values_[graph_.inputs[at]] = inputs[at];
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph_.nodes.size()); ++id) {
    const ir::Node& node = graph_.node(id);
    if (!node.alive) continue;
    const auto begin = profiling_ ? Clock::now() : Clock::time_point();
    operands_.clear();
    for (ir::ValueId input : node.inputs) operands_.push_back(input == ir::no_value ? Tensor() : values_[input]);
    // What is read for the last time may be written over.
    for (ir::ValueId input : node.inputs)
      if (input != ir::no_value && --left_[input] == 0) values_[input] = Tensor();
    results_.assign(node.outputs.size(), Tensor());
    evaluate(id, operands_, results_);
    for (size_t at = 0; at < node.outputs.size(); ++at)
      if (node.outputs[at] != ir::no_value) values_[node.outputs[at]] = std::move(results_[at]);
    operands_.clear();
    if (!profiling_) continue;
    times_[id] += std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    ++rounds_[id];
  }
  std::vector<Tensor> results;
  for (ir::ValueId output : graph_.outputs) results.push_back(values_[output]);
  std::fill(values_.begin(), values_.end(), Tensor());
  return results;
}

std::vector<LayerTime> DynamicProgram::profile(std::span<const Tensor> inputs, int iterations) {
  begin_profile();
  for (int iteration = 0; iteration < iterations; ++iteration) run(inputs);
  std::vector<LayerTime> layers;
  add_times(layers, {}, std::max(1, iterations));
  end_profile();
  return layers;
}

void DynamicProgram::begin_profile() {
  profiling_ = true;
  std::fill(times_.begin(), times_.end(), 0);
  std::fill(rounds_.begin(), rounds_.end(), 0);
  for (const auto& [body, program] : bodies_) program->begin_profile();
}

void DynamicProgram::end_profile() {
  profiling_ = false;
  for (const auto& [body, program] : bodies_) program->end_profile();
}

void DynamicProgram::add_times(std::vector<LayerTime>& layers, const std::string& inside, int iterations) const {
  for (size_t id = 0; id < times_.size(); ++id) {
    const ir::Node& node = graph_.nodes[id];
    if (!node.alive) continue;
    const size_t own = layers.size();
    const char* without = ops::bodies_of(node).empty() ? "ref" : "bodies";
    const Variants& variants = prepared_[id];
    layers.push_back({node.op + " " + node.label(), node.origins,
                      variants.all.empty() ? without : variants.all[variants.last]->kernel, times_[id] / iterations,
                      inside, static_cast<double>(rounds_[id]) / iterations});
    for (const auto& [name, attribute] : node.attributes)
      if (const auto* body = std::get_if<ir::GraphRef>(&attribute))
        if (const auto found = bodies_.find(body->get()); found != bodies_.end()) {
          layers[own].microseconds -= found->second->profiling_time() / iterations;
          found->second->add_times(layers, inside + node.label() + "/", iterations);
        }
    for (size_t at = own + 1; at < layers.size(); ++at) layers[own].microseconds -= layers[at].microseconds;
    layers[own].microseconds = std::max(0.0, layers[own].microseconds);
  }
}

}  // namespace tenon::runtime

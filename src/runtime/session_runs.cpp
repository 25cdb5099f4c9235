// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/counted.h"
#include "runtime/session.h"

namespace tenon {
namespace {

constexpr size_t kept_programs = 4;  // sizes a session remembers

[[noreturn]] void refuse(const std::string& what, const std::string& why, const std::string& hint = "") {
  throw Error(Code::usage, what, {.why = why, .hint = hint});
}

/// Whether an address is one of elements of that type.
bool is_aligned(const Tensor& tensor) {
  const size_t size = std::max<size_t>(size_of(tensor.dtype()), 1);
  return reinterpret_cast<uintptr_t>(tensor.data()) % size == 0;
}

bool holds_objects(const Tensor& tensor) {
  return tensor.dtype() == DType::sequence || tensor.dtype() == DType::string;
}

void refuse_counts(const ir::Graph& graph) {
  throw Error(Code::usage, "the engine takes " + counted(graph.inputs.size(), "input") + " and gives " +
                               counted(graph.outputs.size(), "output"));
}

std::string text_of(const std::vector<int64_t>& sizes) { return Dims(std::span<const int64_t>(sizes)).str(); }

}  // namespace

Session::Impl::Busy::Busy(Impl& session, Pending pending) : session_(session) {
  if (session.busy.test_and_set(std::memory_order_acquire))
    refuse("two threads use one session at the same time", "",
           "make one session for each thread; an engine is shared freely");
  if (pending == Pending::allowed || session.pending.load() == 0) return;
  session.busy.clear(std::memory_order_release);
  refuse("a session is used while its run_async is under way", "", "wait for its future, or make another session");
}

Session::Impl::Busy::~Busy() {
  if (session_.pending.load() == 0) session_.release();
  session_.busy.clear(std::memory_order_release);
}

void Session::Impl::release() {
  std::fill(given.begin(), given.end(), Tensor());
  std::fill(ready.begin(), ready.end(), Tensor());
}

Session::Impl::Impl(std::shared_ptr<const EngineImpl> of, int threads)
    : engine(std::move(of)), thread_pool(threads, plan().goal.strict ? Denormals::kept : Denormals::flushed) {
  const ir::Graph& graph = plan().graph;
  bound_inputs.resize(graph.inputs.size()), dense.resize(graph.inputs.size()), ready.resize(graph.inputs.size());
  given.resize(graph.inputs.size());
  bound_outputs.resize(graph.outputs.size()), results.resize(graph.outputs.size());
}

size_t Session::Impl::input_named(const std::string& name) const {
  const ir::Graph& graph = plan().graph;
  for (size_t at = 0; at < graph.inputs.size(); ++at)
    if (graph.value(graph.inputs[at]).name == name) return at;
  throw Error(Code::usage, "the model has no input \"" + name + "\"");
}

size_t Session::Impl::output_named(const std::string& name) const {
  for (size_t at = 0; at < plan().graph.outputs.size(); ++at)
    if (plan::output_name(plan().graph, at) == name) return at;
  throw Error(Code::usage, "the model has no output \"" + name + "\"");
}

void Session::Impl::check_input(size_t at, const Tensor& tensor) const {
  const ir::Value& value = plan().graph.value(plan().graph.inputs[at]);
  if (tensor.dtype() != value.dtype)
    refuse("input \"" + value.name + "\" is of type " + std::string(name(tensor.dtype())),
           "the model takes " + std::string(name(value.dtype)), "cast it, as NumPy's astype does");
  if (tensor.on_cpu()) return;
  const std::string where = tensor.device().str(), wanted = plan().device.str();
  if (where != wanted)
    refuse("input \"" + value.name + "\" lies on " + where, "the engine runs on " + wanted, "copy it there");
  if (!tensor.is_dense())
    refuse("input \"" + value.name + "\" is not dense", "it lies on " + where, "make it contiguous");
}

void Session::Impl::check_target(size_t at, const Tensor& tensor) const {
  const ir::Graph& graph = plan().graph;
  const ir::Value& value = graph.value(graph.outputs[at]);
  const std::string what = "output \"" + plan::output_name(graph, at) + "\" ";
  if (tensor.dtype() != value.dtype || holds_objects(tensor))
    refuse(what + "cannot be bound to " + std::string(name(tensor.dtype())), "it is " + std::string(name(value.dtype)));
  if (!tensor.is_dense() || !is_aligned(tensor))
    refuse(what + "cannot be bound to that memory", tensor.is_dense() ? "it is not aligned" : "it is not dense");
  const std::string where = tensor.device().str(), wanted = plan().device.str();
  if (!tensor.on_cpu() && where != wanted)
    refuse(what + "cannot be bound to memory on " + where, "the engine runs on " + wanted);
}

runtime::Program& Session::Impl::add_program(const Shapes& shapes) {
  const auto begin = std::chrono::steady_clock::now();
  if (profile) plan::check_profile(plan(), *profile, shapes);
  runtime::Program& program =
      programs.emplace_front(engine->whole_plan(), shapes, thread_pool, &engine->shared, arena ? arena : own_arena);
  engine->whole_plan();  // of which weights were packed
  if (programs.size() > kept_programs) programs.pop_back();
  if (engine->logger.takes(Severity::verbose)) {
    std::string text = "planned for";
    for (const auto& [name, sizes] : shapes) text += " " + name + " " + text_of(sizes);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    engine->logger.log(Severity::verbose, text + " in " + std::to_string(static_cast<int64_t>(took.count())) +
                                              " ms, arena of " + memory_text(program.memory().arena_bytes));
  }
  return program;
}

runtime::Program& Session::Impl::program(std::span<const Tensor> inputs) {
  for (auto at = programs.begin(); at != programs.end(); ++at)
    if (at->matches(inputs)) {
      if (at != programs.begin()) programs.splice(programs.begin(), programs, at);
      return programs.front();
    }
  Shapes shapes;
  const ir::Graph& graph = plan().graph;
  for (size_t at = 0; at < inputs.size(); ++at)
    if (inputs[at].dtype() != DType::sequence)
      shapes[graph.value(graph.inputs[at]).name] = {inputs[at].dims().begin(), inputs[at].dims().end()};
  return add_program(shapes);
}

std::span<const Tensor> Session::Impl::prepared(std::span<const Tensor> inputs) {
  if (inputs.size() != ready.size()) refuse_counts(plan().graph);
  for (size_t at = 0; at < inputs.size(); ++at) {
    const Tensor& tensor = inputs[at];
    check_input(at, tensor);
    if (holds_objects(tensor) || !tensor.on_cpu() || (tensor.is_dense() && is_aligned(tensor))) {
      ready[at] = tensor;
      continue;
    }
    if (dense[at].dims() != tensor.dims() || !dense[at]) dense[at] = Tensor(tensor.dtype(), tensor.dims());
    tensor.copy_to(dense[at].data());
    ready[at] = dense[at];
  }
  return ready;
}

void Session::Impl::run(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::span<const Tensor> targets) {
  const BudgetScope scope(engine->budget);
  if (outputs.size() != results.size()) refuse_counts(plan().graph);
  const std::span<const Tensor> operands = prepared(inputs);
  runtime::Program& one = program(operands);
  for (size_t at = 0; at < operands.size(); ++at)
    if (!operands[at].on_cpu() && !one.streams())
      throw Error(Code::unsupported, "an input on a GPU needs an engine that runs there as a whole",
                  {.why = "sizes of this one's results depend on its data", .hint = "give it in the process's memory"});
  for (size_t at = 0; at < targets.size(); ++at) {
    const std::optional<Dims> sizes = one.output_sizes(at);
    if (targets[at] && sizes && *sizes != targets[at].dims())
      refuse("output " + std::to_string(at) + " is bound to a tensor " + targets[at].dims().str(),
             "the run gives " + sizes->str());
  }
  try {
    one.run(operands, outputs, targets);
    engine->check_lost();
  } catch (const Error& error) {
    engine->logger.log(error.code() == Code::internal ? Severity::internal_error : Severity::error, error.text());
    throw;
  }
}

std::vector<Tensor> Session::Impl::run(const std::map<std::string, Tensor>& inputs) {
  return run_to(inputs, [&](size_t at, const Dims& dims) {
    return Tensor(plan().graph.value(plan().graph.outputs[at]).dtype, dims);
  });
}

std::vector<Tensor> Session::Impl::run_to(const std::map<std::string, Tensor>& inputs,
                                          const std::function<Tensor(size_t output, const Dims& dims)>& target) {
  const BudgetScope scope(engine->budget);
  const ir::Graph& graph = plan().graph;
  for (size_t at = 0; at < given.size(); ++at) {
    const auto found = inputs.find(graph.value(graph.inputs[at]).name);
    if (found == inputs.end()) refuse("input \"" + graph.value(graph.inputs[at]).name + "\" is missing", "");
    given[at] = found->second;
  }
  for (const auto& [name, tensor] : inputs) input_named(name);
  const std::span<const Tensor> operands = prepared(given);
  const runtime::Program& one = program(operands);
  std::vector<Tensor> own(results.size()), outputs(results.size());
  for (size_t at = 0; at < own.size(); ++at)
    if (const std::optional<Dims> sizes = one.output_sizes(at);
        sizes && !one.streams() && size_of(graph.value(graph.outputs[at]).dtype) > 0)
      own[at] = target(at, *sizes);
  run(operands, outputs, own);
  for (size_t at = 0; at < own.size(); ++at)
    if (outputs[at] && !own[at]) outputs[at] = outputs[at].copy();
  return outputs;
}

void Session::Impl::run_bound() {
  const BudgetScope scope(engine->budget);
  for (size_t at = 0; at < given.size(); ++at)
    given[at] = bound_inputs[at] ? bound_inputs[at] : programs.front().input(at);
  run(given, results, bound_outputs);
}

void Session::Impl::put_in_line(std::function<std::vector<Tensor>()> work, Done done) {
  if (!queue) queue = std::make_unique<runtime::WorkQueue>();
  ++pending;
  queue->push([this, work = std::move(work), done = std::move(done)] {
    std::vector<Tensor> outputs;
    std::exception_ptr error;
    try {
      outputs = work();
    } catch (...) {
      error = std::current_exception();
    }
    release();
    --pending;  // first, so that who was told may use the session
    done(std::move(outputs), std::move(error));
  });
}

void Session::Impl::enqueue(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void* stream) {
  backends::StreamExecutable* device = programs.front().streams();
  if (!device)
    throw Error(Code::unsupported, "a run on a stream needs an engine on a GPU",
                {.why = programs.front().is_static() ? "this one is on " + plan().device.str()
                                                     : "sizes of this one's results depend on its data",
                 .hint = "call run()"});
  const ir::Graph& graph = plan().graph;
  if (inputs.size() != graph.inputs.size() || outputs.size() != graph.outputs.size()) refuse_counts(graph);
  const auto address = [&](const Tensor& tensor, bool is_input, size_t at) -> uint64_t {
    if (!tensor) return 0;
    is_input ? check_input(at, tensor) : check_target(at, tensor);
    const Tensor own = on_device(at, is_input);
    const std::string what = std::string(is_input ? "input " : "output ") + std::to_string(at);
    if (tensor.on_cpu()) refuse(what + " is not on " + own.device().str(), "", "copy it there, or call run()");
    if (tensor.dims() != own.dims())
      refuse(what + " is " + tensor.dims().str(), "the session was made for " + own.dims().str(),
             "make a session for its sizes");
    return reinterpret_cast<uint64_t>(tensor.data());
  };
  std::vector<uint64_t> from, to;
  for (size_t at = 0; at < inputs.size(); ++at) from.push_back(address(inputs[at], true, at));
  for (size_t at = 0; at < outputs.size(); ++at) to.push_back(address(outputs[at], false, at));
  device->enqueue(from, to, stream);
}

Tensor Session::Impl::on_device(size_t at, bool is_input) {
  backends::StreamExecutable* device = programs.front().streams();
  const ir::Graph& graph = plan().graph;
  if (!device || at >= (is_input ? graph.inputs : graph.outputs).size()) return {};
  const uint64_t address = is_input ? device->input_address(at) : device->output_address(at);
  const DType type = graph.value(is_input ? graph.inputs[at] : graph.outputs[at]).dtype;
  const Dims dims = is_input ? device->input(at).dims() : *programs.front().output_sizes(at);
  return Tensor::view(type, dims, Dims(), reinterpret_cast<void*>(address), plan().device);
}

}  // namespace tenon

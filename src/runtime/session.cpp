#include <tenon/error.h>
#include <tenon/tenon.h>

#include <atomic>
#include <list>

#include "engine/engine.h"
#include "runtime/program.h"

namespace tenon {

namespace {
constexpr size_t kept_programs = 4;  // sizes a session remembers
}

struct Session::Impl {
  std::shared_ptr<const Engine::Impl> engine;
  Team team;
  std::shared_ptr<backends::Arena> arena;  // of another session; else each program has its own
  std::list<runtime::Program> programs;    // most recently used first
  std::atomic_flag busy = ATOMIC_FLAG_INIT;

  Impl(std::shared_ptr<const Engine::Impl> e, int threads) : engine(std::move(e)), team(threads) {}

  void check(size_t at, const Tensor& tensor) const {
    const ir::Graph& graph = engine->plan.graph;
    const ir::Value& value = graph.value(graph.inputs[at]);
    if (tensor.dtype() != value.dtype)
      throw Error(Code::usage, "input \"" + value.name + "\" is of type " + std::string(name(tensor.dtype())),
                  {.why = "the model takes " + std::string(name(value.dtype))});
  }

  runtime::Program& program(std::span<const Tensor> inputs) {
    for (auto at = programs.begin(); at != programs.end(); ++at)
      if (at->matches(inputs)) {
        if (at != programs.begin()) programs.splice(programs.begin(), programs, at);
        return programs.front();
      }
    Shapes shapes;
    const ir::Graph& graph = engine->plan.graph;
    for (size_t at = 0; at < inputs.size(); ++at)
      if (inputs[at].dtype() != DType::sequence)
        shapes[graph.value(graph.inputs[at]).name] = {inputs[at].dims().begin(), inputs[at].dims().end()};
    programs.emplace_front(engine->plan, shapes, team, &engine->compiled, arena);
    if (programs.size() > kept_programs) programs.pop_back();
    return programs.front();
  }
};

namespace {
/// The engine's own sizes, and in their place those given.
Shapes bound(const plan::Plan& plan, const Shapes& shapes) {
  Shapes all = plan.shapes;
  for (const auto& [name, sizes] : shapes) all[name] = sizes;
  return all;
}

/// Holds a session while it runs; a second thread gets an error instead of a race.
class Busy {
 public:
  explicit Busy(std::atomic_flag& flag) : flag_(flag) {
    if (flag_.test_and_set(std::memory_order_acquire))
      throw Error(Code::usage, "two threads use one session at the same time",
                  {.hint = "make one session for each thread; an engine is shared freely"});
  }
  ~Busy() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag& flag_;
};
}  // namespace

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Session Engine::session(int threads, const Shapes& shapes) const {
  const int most = usable_cores();
  if (threads == 0) threads = std::min(impl_->plan.threads, most);
  if (threads < 1 || threads > 256)
    throw Error(Code::usage, "cannot run on " + std::to_string(threads) + " threads", {.hint = "give 1 to 256"});
  auto impl = std::make_unique<Session::Impl>(impl_, threads);
  impl->programs.emplace_front(impl_->plan, bound(impl_->plan, shapes), impl->team, &impl_->compiled);
  return Session(std::move(impl));
}

Session Engine::session(Session& other, const Shapes& shapes) const {
  const Busy busy(other.impl_->busy);
  auto impl = std::make_unique<Session::Impl>(impl_, other.impl_->team.threads());
  impl->arena = other.impl_->programs.front().arena();
  const runtime::Program& program =
      impl->programs.emplace_front(impl_->plan, bound(impl_->plan, shapes), impl->team, &impl_->compiled, impl->arena);
  if (!impl->arena || program.arena() != impl->arena)
    throw Error(Code::usage, "the sessions cannot share an arena",
                {.why = !impl->arena       ? "the other is on the CPU"
                        : !program.arena() ? "this one is on the CPU"
                                           : "the other's is smaller, or on another device",
                 .hint = "make the session of the larger engine first"});
  return Session(std::move(impl));
}

void Session::run(std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  const Busy busy(impl_->busy);
  const ir::Graph& graph = impl_->engine->plan.graph;
  if (inputs.size() != graph.inputs.size() || outputs.size() != graph.outputs.size())
    throw Error(Code::usage, "the engine takes " + std::to_string(graph.inputs.size()) + " inputs and gives " +
                                 std::to_string(graph.outputs.size()) + " outputs");
  for (size_t at = 0; at < inputs.size(); ++at) impl_->check(at, inputs[at]);
  impl_->program(inputs).run(inputs, outputs);
}

std::vector<Tensor> Session::run(const std::map<std::string, Tensor>& inputs) {
  const ir::Graph& graph = impl_->engine->plan.graph;
  std::vector<Tensor> ordered;
  for (ir::ValueId id : graph.inputs) {
    const auto found = inputs.find(graph.value(id).name);
    if (found == inputs.end()) throw Error(Code::usage, "input \"" + graph.value(id).name + "\" is missing");
    ordered.push_back(found->second);
  }
  for (const auto& [name, tensor] : inputs) {
    bool known = false;
    for (ir::ValueId id : graph.inputs) known |= graph.value(id).name == name;
    if (!known) throw Error(Code::usage, "the model has no input \"" + name + "\"");
  }
  std::vector<Tensor> outputs(graph.outputs.size());
  run(ordered, outputs);
  for (Tensor& output : outputs)
    if (output) output = output.copy();
  return outputs;
}

Tensor Session::input(size_t at) {
  const Busy busy(impl_->busy);
  if (at >= impl_->engine->plan.graph.inputs.size())
    throw Error(Code::usage, "the engine has no input " + std::to_string(at));
  return impl_->programs.front().input(at);
}

void Session::run_async(std::span<const uint64_t> inputs, std::span<const uint64_t> outputs, void* stream) {
  const Busy busy(impl_->busy);
  backends::StreamExecutable* device = impl_->programs.front().streams();
  if (!device)
    throw Error(Code::unsupported, "a run on a stream needs an engine on a GPU",
                {.why = impl_->programs.front().is_static() ? "this one is on " + impl_->engine->plan.device.str()
                                                            : "sizes of this one's results depend on its data",
                 .hint = "call run()"});
  const ir::Graph& graph = impl_->engine->plan.graph;
  if (inputs.size() != graph.inputs.size() || outputs.size() != graph.outputs.size())
    throw Error(Code::usage, "the engine takes " + std::to_string(graph.inputs.size()) + " inputs and gives " +
                                 std::to_string(graph.outputs.size()) + " outputs");
  device->enqueue(inputs, outputs, stream);
}

uint64_t Session::device_input(size_t at) const {
  const backends::StreamExecutable* device = impl_->programs.front().streams();
  return device && at < impl_->engine->plan.graph.inputs.size() ? device->input_address(at) : 0;
}

uint64_t Session::device_output(size_t at) const {
  backends::StreamExecutable* device = impl_->programs.front().streams();
  return device && at < impl_->engine->plan.graph.outputs.size() ? device->output_address(at) : 0;
}

std::vector<LayerTime> Session::profile(std::span<const Tensor> inputs, int iterations) {
  const Busy busy(impl_->busy);
  return impl_->program(inputs).profile(inputs, iterations);
}

std::vector<double> Session::device_times(int iterations) {
  const Busy busy(impl_->busy);
  return impl_->programs.empty() ? std::vector<double>() : impl_->programs.front().device_times(iterations);
}

MemoryUse Session::memory() const { return impl_->programs.empty() ? MemoryUse{} : impl_->programs.front().memory(); }
int Session::threads() const { return impl_->team.threads(); }

}  // namespace tenon

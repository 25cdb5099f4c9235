// SPDX-License-Identifier: Apache-2.0
#include "runtime/state.h"

#include <tenon/error.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/session.h"

namespace tenon {

State::Impl::Impl(std::shared_ptr<const EngineAccess::Impl> of, Shapes given)
    : engine(std::move(of)), sizes(std::move(given)), carried(plan::carried_of(engine->plan)), slots(carried.size()) {
  for (const auto& [name, dims] : sizes) {
    const ir::Value& value = input(slot_of(name));
    if (value.shape && value.shape->size() != dims.size())
      throw Error(Code::usage, "input \"" + name + "\" is given " + ir::str(ir::Shape(dims.begin(), dims.end())),
                  {.why = "the model expects " + ir::str(*value.shape)});
  }
}

size_t State::Impl::slot_of(const std::string& name) const {
  for (size_t at = 0; at < slots.size(); ++at)
    if (input(at).name == name) return at;
  throw Error(Code::usage, "input \"" + name + "\" is not carried from run to run",
              {.hint = slots.empty() ? "build the engine with the state named" : "carried are inputs such as \"" +
                                                                                      input(0).name + "\""});
}

const ir::Value& State::Impl::input(size_t slot) const {
  const ir::Graph& graph = engine->plan.graph;
  return graph.value(graph.inputs[carried[slot].input]);
}

Tensor State::Impl::initial(size_t slot, const std::map<std::string, int64_t>& others) const {
  const ir::Value& value = input(slot);
  Dims dims;
  if (const auto given = sizes.find(value.name); given != sizes.end()) {
    dims = Dims(given->second);
  } else if (value.shape) {
    for (const ir::Dim& dim : *value.shape) {
      const auto known = others.find(dim.str());
      dims.push_back(dim.is_constant() ? dim.value() : known != others.end() ? known->second : 0);
    }
  } else {
    throw Error(Code::usage, "the model does not say the sizes of input \"" + value.name + "\"",
                {.hint = "give them to Engine::state"});
  }
  Tensor tensor(value.dtype, dims);
  if (tensor.bytes()) std::memset(tensor.data<std::byte>(), 0, tensor.bytes());
  return tensor;
}

Tensor State::Impl::target(size_t slot, const Dims& dims) {
  const DType type = input(slot).dtype;
  Tensor& memory = slots[slot].other;
  const auto bytes = static_cast<int64_t>(Tensor::view(type, dims, nullptr).bytes());
  // What has grown once will grow again.
  if (!memory || static_cast<int64_t>(memory.bytes()) < bytes)
    memory = Tensor(DType::u8, {std::max<int64_t>(1, memory ? bytes + bytes / 2 : bytes)});
  return Tensor::view(type, dims, memory.data<std::byte>());
}

void State::Impl::take(size_t slot, const Tensor& next) {
  Slot& one = slots[slot];
  if (!one.other || next.data() != one.other.data()) {
    const Tensor to = target(slot, next.dims());
    if (to.bytes()) next.copy_to(const_cast<std::byte*>(to.data<std::byte>()));
    one.value = to;
  } else {
    one.value = next;
  }
  std::swap(one.own, one.other);
}

State::State(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
State::State(State&&) noexcept = default;
State& State::operator=(State&&) noexcept = default;
State::~State() = default;

void State::reset() {
  for (Impl::Slot& slot : impl_->slots) slot.value = Tensor();
}

State State::fork() const {
  auto other = std::make_unique<Impl>(impl_->engine, impl_->sizes);
  for (size_t at = 0; at < impl_->slots.size(); ++at)
    if (impl_->slots[at].value) other->take(at, impl_->slots[at].value);
  return State(std::move(other));
}

Tensor State::get(const std::string& input) const { return impl_->slots[impl_->slot_of(input)].value; }

void State::set(const std::string& input, const Tensor& tensor) {
  const size_t slot = impl_->slot_of(input);
  const ir::Value& value = impl_->input(slot);
  if (tensor.dtype() != value.dtype || !tensor.on_cpu())
    throw Error(Code::usage, "input \"" + input + "\" is of type " + std::string(name(value.dtype)),
                {.why = "the tensor is " + std::string(name(tensor.dtype())) + " on " + tensor.device().str()});
  if (value.shape && value.shape->size() != tensor.dims().rank())
    throw Error(Code::usage,
                "input \"" + input + "\" is given " + ir::str(ir::Shape(tensor.dims().begin(), tensor.dims().end())),
                {.why = "the model expects " + ir::str(*value.shape)});
  impl_->take(slot, tensor);
}

State Engine::state(const Shapes& sizes) const {
  if (impl_->plan.carried.empty())
    throw Error(Code::usage, "the engine carries nothing from run to run",
                {.hint = "name outputs and inputs in BuildOptions::state"});
  const BudgetScope scope(impl_->budget);
  return State(std::make_unique<State::Impl>(impl_, sizes));
}

std::vector<Tensor> Session::run(const std::map<std::string, Tensor>& inputs, State& state) {
  const Impl::Busy busy(*impl_);
  if (state.impl_->engine != impl_->engine)
    throw Error(Code::usage, "the state is another engine's", {.hint = "take one from Engine::state of this engine"});
  return impl_->run(inputs, *state.impl_);
}

std::vector<Tensor> Session::Impl::run(const std::map<std::string, Tensor>& inputs, State::Impl& state) {
  const BudgetScope scope(engine->budget);
  const ir::Graph& graph = plan().graph;
  std::map<std::string, Tensor> all = inputs;
  std::map<std::string, int64_t> symbols;
  for (const auto& [name, tensor] : inputs) {
    const ir::Value& value = graph.value(graph.inputs[input_named(name)]);
    for (size_t axis = 0; value.shape && axis < std::min(value.shape->size(), tensor.dims().rank()); ++axis)
      symbols[(*value.shape)[axis].str()] = tensor.dims()[axis];
  }
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    const std::string& name = state.input(slot).name;
    const Tensor& value = state.slots[slot].value;
    if (!all.emplace(name, value ? value : state.initial(slot, symbols)).second)
      throw Error(Code::usage, "input \"" + name + "\" is given, and carried by the state",
                  {.hint = "leave it out, or set it in the state"});
  }
  const auto target = [&](size_t at, const Dims& dims) {
    for (size_t slot = 0; slot < state.slots.size(); ++slot)
      if (state.carried[slot].output == at) return state.target(slot, dims);
    return Tensor(graph.value(graph.outputs[at]).dtype, dims);
  };
  std::vector<Tensor> outputs = run_to(all, target);
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    Tensor& output = outputs[state.carried[slot].output];
    state.take(slot, output);
    output = state.slots[slot].value;
  }
  return outputs;
}

}  // namespace tenon

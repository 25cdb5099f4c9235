// SPDX-License-Identifier: Apache-2.0
#include "runtime/program.h"

#include <tenon/error.h>

#include <algorithm>
#include <utility>

#include "backends/backend.h"

namespace tenon::runtime {

namespace {

/// Names all that a compiled plan depends on.
std::string key_of(const plan::Plan& plan, const Shapes& shapes, int threads) {
  std::string key = plan.device.str() + " t" + std::to_string(threads);
  for (const auto& [name, sizes] : shapes) {
    key += '\n' + name;
    for (const int64_t size : sizes) key += ' ' + std::to_string(size);
  }
  return key;
}

/// A result of its own where it lies in memory of an input, which is the caller's or the next run's.
Tensor apart_from(std::span<const Tensor> inputs, const Tensor& result) {
  const auto* const at = result.data<std::byte>();
  for (const Tensor& input : inputs) {
    const auto* const begin = input.data<std::byte>();
    if (at && at >= begin && at < begin + input.bytes()) return result.copy();
  }
  return result;
}

}  // namespace

Program::Program(const plan::Plan& plan, const Shapes& shapes, ThreadPool& thread_pool, plan::Shared* shared,
                 std::shared_ptr<backends::Arena> arena) {
  const backends::Backend& backend = backends::backend(plan.device);
  plan::Shared own;
  if (!shared) shared = &own;
  const auto compile = [&]() -> backends::CompiledCache::Entry {
    plan::Bound bound = shared->bind(plan, shapes, thread_pool.threads());
    auto weights = bound.schedule ? bound.schedule->weights : std::make_shared<backends::WeightCache>();
    backends::CompiledCache::Entry compiled;
    if (bound.schedule) {
      const auto like = shared->compiled.like(*bound.schedule);
      compiled = backend.compile(std::move(*bound.schedule), thread_pool, like.get());
    }
    if (!bound.whole) return compiled;
    graph_ = std::move(*bound.whole);
    if (compiled) executable_ = compiled->executable(thread_pool, arena);
    dynamic_ = std::make_unique<RestProgram>(std::move(bound.parts), plan, thread_pool, std::move(weights));
    return nullptr;
  };
  if (const auto compiled = shared->compiled.get(key_of(plan, shapes, thread_pool.threads()), compile))
    executable_ = compiled->executable(thread_pool, std::move(arena));
}

bool Program::matches(std::span<const Tensor> inputs) const {
  if (!dynamic_) {
    const backends::Schedule& schedule = executable_->schedule();
    for (size_t at = 0; at < inputs.size(); ++at)
      if (schedule.layout.places[static_cast<size_t>(schedule.graph.inputs[at])].dims != inputs[at].dims())
        return false;
    return true;
  }
  for (size_t at = 0; at < inputs.size(); ++at) {
    const ir::Value& value = graph().value(graph().inputs[at]);
    if (!value.shape) return false;
    if (value.shape->size() != inputs[at].dims().rank()) return false;
    for (size_t axis = 0; axis < value.shape->size(); ++axis)
      if (!(*value.shape)[axis].is_constant() || (*value.shape)[axis].value() != inputs[at].dims()[axis]) return false;
  }
  return true;
}

std::vector<Tensor> Program::with_head(std::span<const Tensor> inputs) {
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  if (!executable_) return all;
  all.resize(inputs.size() + executable_->schedule().graph.outputs.size());
  executable_->run(inputs, std::span(all).subspan(inputs.size()));
  return all;
}

void Program::run(std::span<const Tensor> inputs, std::span<Tensor> outputs) { run(inputs, outputs, {}); }

void Program::run(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::span<const Tensor> targets) {
  if (!dynamic_) return executable_->run(inputs, outputs, targets);
  const std::vector<Tensor> given = with_head(inputs);
  const std::vector<Tensor> results = dynamic_->run(given);
  for (size_t at = 0; at < results.size(); ++at) outputs[at] = apart_from(given, results[at]);
  for (size_t at = 0; at < targets.size(); ++at)
    if (targets[at]) backends::fill(outputs[at], targets[at]);
}

std::optional<Dims> Program::output_sizes(size_t at) const {
  if (dynamic_) return std::nullopt;
  return executable_->schedule().layout.places[graph().outputs[at]].dims;
}

std::vector<LayerTime> Program::profile(std::span<const Tensor> inputs, int iterations) {
  std::vector<LayerTime> layers;
  if (executable_) layers = executable_->profile(inputs, iterations);
  if (dynamic_) {
    const std::vector<LayerTime> rest = dynamic_->profile(with_head(inputs), iterations);
    layers.insert(layers.end(), rest.begin(), rest.end());
  }
  return layers;
}

Tensor Program::input(size_t at) {
  if (executable_) return executable_->input(at);
  Tensor& own = own_inputs_[at];
  if (!own) {
    const ir::Value& value = graph_.value(graph_.inputs[at]);
    Dims dims;
    for (const ir::Dim& dim : *value.shape) {
      if (!dim.is_constant()) throw Error(Code::usage, "input \"" + value.name + "\" has no fixed sizes");
      dims.push_back(dim.value());
    }
    own = Tensor(value.dtype, dims);
  }
  return own;
}

std::vector<double> Program::device_times(int iterations) {
  return streams() ? streams()->time(iterations) : std::vector<double>();
}

MemoryUse Program::memory() const {
  if (executable_) return executable_->memory();
  MemoryUse use;
  for (const ir::Value& value : graph_.values)
    if (value.is_constant() && size_of(value.dtype)) use.weights_bytes += static_cast<int64_t>(value.constant.bytes());
  return use;
}

}  // namespace tenon::runtime

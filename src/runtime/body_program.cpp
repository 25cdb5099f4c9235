// SPDX-License-Identifier: Apache-2.0
#include "runtime/body_program.h"

#include <tenon/error.h>

#include <chrono>

#include "runtime/program.h"

namespace tenon::runtime {
namespace {

constexpr int64_t few_body_elements = 1 << 14;  // of all values: waking a thread pool takes longer than such a body

bool is_array(const Tensor& tensor) { return tensor && tensor.on_cpu() && size_of(tensor.dtype()) > 0; }

int64_t elements_of(const backends::Layout& layout) {
  int64_t elements = 0;
  for (const backends::Place& place : layout.places)
    if (__builtin_add_overflow(elements, place.dims.elements(), &elements)) return INT64_MAX;
  return elements;
}

}  // namespace

BodyProgram::BodyProgram(const ir::Graph& body, const plan::Plan& plan, ThreadPool& thread_pool,
                         std::shared_ptr<backends::WeightCache> weights)
    : body_(body),
      thread_pool_(thread_pool),
      weights_(std::move(weights)),
      alone_(1, thread_pool.denormals()),
      nodes_(body, plan, thread_pool, weights_) {
  host_.graph = body;
  host_.goal = plan::host_goal(plan), host_.records = plan.records;
  shared_.share(weights_);
}
BodyProgram::~BodyProgram() = default;

void BodyProgram::bind_whole(std::span<const Tensor> inputs) try {
  Shapes shapes;
  for (size_t at = 0; at < inputs.size(); ++at) {
    const ir::Value& value = body_.value(body_.inputs[at]);
    if (!is_array(inputs[at]) || value.dtype != inputs[at].dtype()) return;
    shapes[value.name] = {inputs[at].dims().begin(), inputs[at].dims().end()};
  }
  auto made = std::make_unique<Program>(host_, shapes, thread_pool_, &shared_);
  is_whole_ = made->is_static();
  if (!is_whole_) return;
  if (elements_of(made->executable()->schedule().layout) <= few_body_elements)
    made = std::make_unique<Program>(host_, shapes, alone_, &shared_);
  whole_ = std::move(made);
  fits_ = true;
} catch (const Error&) {
  fits_ = false;  // node by node it may not be reached
}

std::vector<Tensor> BodyProgram::run(const std::vector<Tensor>& inputs) {
  std::vector<Seen> seen;
  for (const Tensor& input : inputs) seen.push_back({input.dtype(), input.dims()});
  if (!(seen == seen_)) {
    seen_ = std::move(seen);
    tried_ = fits_ = false;
  } else if (!tried_ && is_whole_) {
    tried_ = true;
    bind_whole(inputs);
  }
  return fits_ ? run_whole(inputs) : nodes_.run(inputs);
}

std::vector<Tensor> BodyProgram::run_whole(std::span<const Tensor> inputs) {
  const backends::Schedule& schedule = whole_->executable()->schedule();
  const ir::Graph& graph = schedule.graph;
  outputs_.assign(graph.outputs.size(), Tensor());
  targets_.assign(graph.outputs.size(), Tensor());
  // What the arena holds is gone by the next round; inputs and constants stay.
  for (size_t at = 0; at < graph.outputs.size(); ++at) {
    const backends::Place& place = schedule.layout.places[graph.outputs[at]];
    if (place.storage >= 0) targets_[at] = Tensor(graph.value(graph.outputs[at]).dtype, place.dims);
  }
  whole_->run(inputs, outputs_, targets_);
  if (profiling_) {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<LayerTime> layers = whole_->profile(inputs, 1);
    if (layers_.size() != layers.size()) layers_ = layers;
    else
      for (size_t at = 0; at < layers.size(); ++at) layers_[at].microseconds += layers[at].microseconds;
    ++rounds_;
    extra_ += std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  }
  return std::move(outputs_);
}

void BodyProgram::begin_profile() {
  profiling_ = true;
  layers_.clear();
  rounds_ = 0;
  extra_ = 0;
  nodes_.begin_profile();
}

void BodyProgram::end_profile() {
  profiling_ = false;
  nodes_.end_profile();
}

void BodyProgram::add_times(std::vector<LayerTime>& layers, const std::string& inside, int iterations) const {
  if (layers_.empty()) return nodes_.add_times(layers, inside, iterations);
  for (LayerTime layer : layers_) {
    layer.microseconds /= iterations;
    layer.inside = inside + layer.inside;
    layer.rounds *= static_cast<double>(rounds_) / iterations;
    layers.push_back(std::move(layer));
  }
}

}  // namespace tenon::runtime

// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

namespace tenon {
namespace {

TensorInfo info(const ir::Value& value, const std::string& name) {
  TensorInfo result{name, value.dtype, {}};
  if (value.shape)
    for (const ir::Dim& dim : *value.shape) result.shape.push_back(dim.is_constant() ? dim.value() : -1);
  return result;
}

}  // namespace

Engine engine_of(plan::Plan plan) {
  plan.steps.clear();
  return EngineAccess::make(std::make_shared<EngineAccess::Impl>(EngineAccess::Impl{.plan = std::move(plan)}));
}

Engine with_plan(const Engine& engine, plan::Plan plan) {
  plan.steps.clear();
  const EngineAccess::Impl& impl = EngineAccess::of(engine);
  return EngineAccess::make(std::make_shared<EngineAccess::Impl>(
      EngineAccess::Impl{.plan = std::move(plan), .files = impl.files, .logger = impl.logger, .budget = impl.budget}));
}

std::vector<TensorInfo> Engine::inputs() const {
  std::vector<TensorInfo> infos;
  for (ir::ValueId id : impl_->plan.graph.inputs)
    infos.push_back(info(impl_->plan.graph.value(id), impl_->plan.graph.value(id).name));
  return infos;
}

std::vector<TensorInfo> Engine::outputs() const {
  const ir::Graph& graph = impl_->plan.graph;
  std::vector<TensorInfo> infos;
  for (size_t at = 0; at < graph.outputs.size(); ++at)
    infos.push_back(info(graph.value(graph.outputs[at]), plan::output_name(graph, at)));
  return infos;
}

const std::map<std::string, std::string>& Engine::metadata() const { return impl_->plan.graph.metadata; }

std::vector<Profile> Engine::profiles() const { return impl_->plan.profiles; }

std::vector<std::pair<std::string, std::string>> Engine::carried() const { return impl_->plan.carried; }

const Device& Engine::device() const { return impl_->plan.device; }

Precision Engine::precision() const { return impl_->plan.goal.precision; }

}  // namespace tenon

#include <fmt/format.h>
#include <tenon/tenon.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "backends/backend.h"
#include "base/team.h"
#include "compile/rank.h"
#include "compile/tune.h"
#include "engine/engine.h"
#include "onnx/import.h"
#include "onnx/odd_weights.h"
#include "passes/pass.h"
#include "plan/plan.h"
#include "plan/sources.h"
#include "plan/timing_cache.h"
#include "quant/eight_bits.h"
#include "quant/pace.h"
#include "quant/structure.h"

namespace tenon {

namespace {

const backends::Backend& backend_of(const plan::Plan& plan) { return backends::backend(plan.device); }

/// From an optimised graph to the kernels of the plan's device.
void finish(plan::Plan& plan, plan::SourceTracker tracker, const plan::Records& known, const BuildOptions& options) {
  tracker.note(backend_of(plan).lower(plan.graph, plan.device, plan.goal, options.skip_passes));
  plan.sources = tracker.finish(plan.graph);
  const ir::Graph concrete = plan::concretise(plan.graph, options.shapes);
  for (ir::ValueId input : concrete.inputs) {
    const ir::Value& value = concrete.value(input);
    if (!value.shape || !ir::is_constant(*value.shape)) continue;
    for (const ir::Dim& dim : *value.shape) plan.shapes[value.name].push_back(dim.value());
    plan.shapes.try_emplace(value.name);
  }
  compile::tune(plan, known, options.budget_seconds, options.progress);
}

/// Whether layers of a model that came quantised may be faster in floating point, and can be timed.
bool may_widen(const plan::Plan& plan, const BuildOptions& options) {
  return !backend_of(plan).capabilities(plan.device).fast_integers && options.budget_seconds != 0 &&
         plan::is_static(plan::concretise(plan.graph, plan.shapes));
}

std::string host_isa() { return backends::host().capabilities(Device()).isa; }

/// Throws Error(unsupported) for a precision that the device does not compute in, or a device that is not there.
void choose_device(plan::Plan& plan, const BuildOptions& options) {
  plan.device = options.device;
  const backends::Backend& backend = backend_of(plan);
  backend.require(plan.device);
  const backends::Capabilities can = backend.capabilities(plan.device);
  backends::Goal& goal = plan.goal;
  goal.precision = options.precision;
  if (goal.precision == Precision::best) goal.precision = options.calibrator ? Precision::int8 : can.floats;
  backend.require(plan.device, goal.precision, "--precision " + std::string(name(goal.precision)));
  goal.rounds_to_bf16 = can.rounds_layers && goal.precision == Precision::bf16;
  goal.strict = options.strict;
  goal.vendor = options.vendor;
  goal.isa = host_isa();
}

}  // namespace

/// The whole compiler: import, optimise, quantise, plan, tune.
Engine build(const std::string& model, const BuildOptions& options) {
  auto impl = std::make_shared<Engine::Impl>();
  plan::Plan& plan = impl->plan;
  choose_device(plan, options);
  std::vector<onnx::Listed> listed;
  plan.graph = onnx::import_file(model, {}, options.external_root, &listed);
  plan::SourceTracker tracker(std::move(listed), plan.graph);
  if (options.warn)
    if (const std::string odd = onnx::odd_weights(plan.graph); !odd.empty()) options.warn(odd);
  bool eight_bits = is_quantised(plan.goal.precision);
  const bool came_quantised = quant::is_quantised(plan.graph);
  if (eight_bits && came_quantised) {
    eight_bits = false;
    if (options.warn) options.warn("the model is quantised already and is built as it is, without the data");
  }
  const auto& keep = options.calibration.keep;
  if (!keep.empty() && !eight_bits && !came_quantised)
    throw Error(Code::usage, "every layer is in floating point", {.where = "--keep", .hint = "give --precision int8"});
  const ir::Graph imported = eight_bits ? plan.graph : ir::Graph();
  tracker.note(passes::optimise(plan.graph, options.skip_passes));

  plan.threads = options.threads > 0 ? options.threads : usable_cores();
  plan::TimingCache cache(options.timing_cache, plan.goal.isa);
  if (eight_bits) {
    const auto finish_one = [&](plan::Plan& one) {
      finish(one, tracker, cache.records(), options);
      cache.add(one.records);
    };
    plan = quant::plan_eight_bits({plan, imported, options, cache, finish_one});
  } else {
    if (!keep.empty()) {
      tracker.note(passes::lower(plan.graph, options.skip_passes));
      quant::widen_kept(plan.graph, keep);
    }
    finish(plan, tracker, cache.records(), options);
    if (came_quantised && may_widen(plan, options))
      plan = quant::widen_slower(std::move(plan), [&](plan::Plan& one) {
        compile::tune(one, cache.records(), options.budget_seconds, options.progress);
        cache.add(one.records);
      });
    cache.add(plan.records);
  }
  compile::rank(plan, cache, options.budget_seconds, options.progress);
  for (const auto& [key, text] : options.metadata) plan.graph.metadata[key] = text;
  return Engine(std::move(impl));
}

Engine retune(const Engine& engine, const BuildOptions& options) {
  auto impl = std::make_shared<Engine::Impl>(engine.on(options.device).impl());
  plan::Plan& plan = impl->plan;
  if (is_quantised(options.precision) && plan.goal.precision != options.precision)
    throw Error(Code::unsupported, "an engine cannot be calibrated",
                {.hint = "build the model with --precision " + std::string(name(options.precision))});
  plan.goal = backend_of(plan).retarget(plan.graph, plan.goal, options.precision, options.skip_passes);
  plan.goal.vendor = options.vendor;
  plan.goal.isa = host_isa();
  for (const auto& [name, sizes] : options.shapes) plan.shapes[name] = sizes;
  for (const auto& [key, text] : options.metadata) plan.graph.metadata[key] = text;
  if (options.threads > 0) plan.threads = options.threads;
  plan::TimingCache cache(options.timing_cache, plan.goal.isa);
  compile::tune(plan, cache.records(), options.budget_seconds, options.progress);
  cache.add(plan.records);
  compile::rank(plan, cache, options.budget_seconds, options.progress);
  return Engine(std::move(impl));
}

Engine Engine::on(const Device& device) const {
  const backends::Backend& backend = backends::backend(device);
  backend.require(device);
  const plan::Plan& own = impl_->plan;
  if (own.goal.precision == Precision::fp8) backend.require(device, Precision::fp8, "an engine in fp8");
  auto impl = std::make_shared<Engine::Impl>(*impl_);
  impl->plan.device = device;
  if (device.backend != own.device.backend) backend.take_over(impl->plan.graph);
  return Engine(std::move(impl));
}

Engine open(const std::string& path, const BuildOptions& options) {
  return is_engine_file(path) ? Engine::load(path) : build(path, options);
}

}  // namespace tenon

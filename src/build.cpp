#include <tenon/tenon.h>

#include <algorithm>

#include "backends/cpu/isa.h"
#include "backends/cuda/device.h"
#include "base/team.h"
#include "engine/engine.h"
#include "onnx/import.h"
#include "onnx/odd_weights.h"
#include "passes/pass.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "plan/sources.h"
#include "plan/timing_cache.h"
#include "quant/calibrate.h"
#include "quant/export.h"
#include "quant/materialise.h"

namespace tenon {

namespace {
/// From a floating point graph to one with QuantizeLinear and DequantizeLinear.
void quantise(plan::Plan& plan, const ir::Graph& imported, const plan::Records& known, const BuildOptions& options) {
  if (!options.calibrator)
    throw Error(Code::usage, "INT8 needs calibration data",
                {.hint = "tenon build takes --data; in C++ set BuildOptions::calibrator"});
  quant::Setting setting{options.calibration, options.shapes, plan.threads, known, options.progress, options.warn, {}};
  setting.names = quant::same_tensors(plan.graph, imported);
  quant::materialise(plan.graph, quant::calibrate(plan.graph, *options.calibrator, setting));
}

/// Throws Error(unsupported) for a precision that the device does not compute in, or a device that is not there.
void choose_device(plan::Plan& plan, const BuildOptions& options) {
  static constexpr const char* names[] = {"fp32", "tf32", "fp16", "int8"};
  plan.device = options.device;
  const bool gpu = options.device != "cpu";
  if (gpu) cuda::Device::get(cuda::index_of(options.device));
  if (options.precision == Precision::best) plan.precision = gpu ? "fp16" : "fp32";
  else plan.precision = names[static_cast<int>(options.precision)];
  if (!gpu && (plan.precision == "tf32" || plan.precision == "fp16"))
    throw Error(Code::unsupported, "the CPU computes in fp32 and int8 only",
                {.where = "--precision " + plan.precision, .hint = "leave out --precision, or give fp32 or int8"});
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
  const ir::Graph imported = options.precision == Precision::int8 ? plan.graph : ir::Graph();
  tracker.note(passes::optimise(plan.graph, options.skip_passes));

  plan.threads = options.threads > 0 ? options.threads : usable_cores();
  plan.strict = options.strict;
  plan.isa = cpu::isa_name(cpu::detect_isa());
  plan::TimingCache cache(options.timing_cache, plan.isa);
  if (options.precision == Precision::int8) quantise(plan, imported, cache.records(), options);
  const bool gpu = plan.device != "cpu";
  tracker.note(passes::lower(plan.graph, options.skip_passes, gpu ? passes::Target::gpu : passes::Target::cpu));
  if (gpu) tracker.note(passes::adapt_to_gpu(plan.graph, options.skip_passes));
  if (plan.precision == "fp16" || (gpu && plan.precision == "int8"))
    passes::run_pass(plan.graph, passes::Pass{"narrow_f16", "computes large layers in f16", passes::narrow_f16});
  plan.sources = tracker.finish(plan.graph);
  const ir::Graph concrete = plan::concretise(plan.graph, options.shapes);
  for (ir::ValueId input : concrete.inputs) {
    const ir::Value& value = concrete.value(input);
    if (!value.shape || !ir::is_constant(*value.shape)) continue;
    for (const ir::Dim& dim : *value.shape) plan.shapes[value.name].push_back(dim.value());
    plan.shapes.try_emplace(value.name);
  }

  const auto tune = plan.device == "cpu" ? plan::tune : plan::tune_cuda;
  tune(plan, cache.records(), options.budget_seconds, options.progress);
  cache.add(plan.records);
  return Engine(std::move(impl));
}

Engine Engine::on(const std::string& device) const {
  if (device != "cpu") cuda::Device::get(cuda::index_of(device));
  auto impl = std::make_shared<Engine::Impl>(*impl_);
  impl->plan.device = device;
  // The CPU's kernels are for f32.
  if (device == "cpu" && (impl->plan.precision == "fp16" || impl->plan.precision == "int8"))
    for (const char* pass : {"widen_f16", "remove_identity"}) passes::run_pass(impl->plan.graph, pass);
  return Engine(std::move(impl));
}

Engine open(const std::string& path, const BuildOptions& options) {
  return is_engine_file(path) ? Engine::load(path) : build(path, options);
}

}  // namespace tenon

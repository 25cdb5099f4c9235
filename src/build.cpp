#include <fmt/format.h>
#include <tenon/tenon.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "backends/cpu/epilogue.h"
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
#include "quant/eight_bits.h"
#include "quant/pace.h"
#include "quant/structure.h"
#include "runtime/device_rank.h"

namespace tenon {

namespace {
/// The 16-bit float of the plan's precision.
DType narrow_type(const plan::Plan& plan) { return plan.precision == "bf16" ? DType::bf16 : DType::f16; }

/// Compute capability 8.9 and later multiply e4m3.
bool has_float8(const std::string& device) {
  return device != "cpu" && cuda::Device::get(cuda::index_of(device)).properties().capability() >= 89;
}

/// From an optimised graph to the kernels of the plan's device.
void finish(plan::Plan& plan, plan::SourceTracker tracker, const plan::Records& known, const BuildOptions& options) {
  const bool gpu = plan.device != "cpu";
  if (has_float8(plan.device)) tracker.note(passes::lower_floats(plan.graph, options.skip_passes));
  tracker.note(passes::lower(plan.graph, options.skip_passes));
  if (gpu) tracker.note(passes::adapt_to_gpu(plan.graph, options.skip_passes));
  if (gpu &&
      (plan.precision == "fp16" || plan.precision == "bf16" || plan.precision == "int8" || plan.precision == "fp8"))
    tracker.note(passes::narrow(plan.graph, narrow_type(plan), options.skip_passes));
  else if (gpu && plan.precision == "tf32") tracker.note(passes::round_products(plan.graph, options.skip_passes));
  else if (gpu) tracker.note(passes::join_attention(plan.graph, options.skip_passes));
  plan.sources = tracker.finish(plan.graph);
  const ir::Graph concrete = plan::concretise(plan.graph, options.shapes);
  for (ir::ValueId input : concrete.inputs) {
    const ir::Value& value = concrete.value(input);
    if (!value.shape || !ir::is_constant(*value.shape)) continue;
    for (const ir::Dim& dim : *value.shape) plan.shapes[value.name].push_back(dim.value());
    plan.shapes.try_emplace(value.name);
  }
  (gpu ? plan::tune_cuda : plan::tune)(plan, known, options.budget_seconds, options.progress);
}

/// Whether layers of a model that came quantised may be faster in floating point, and can be timed. Where the CPU
/// multiplies bytes they are not.
bool may_widen(const plan::Plan& plan, const BuildOptions& options) {
  return plan.device == "cpu" && !cpu::has_byte_dot(cpu::active_isa()) && options.budget_seconds != 0 &&
         plan::is_static(plan::concretise(plan.graph, plan.shapes));
}

/// Throws Error(unsupported) where the CPU has no instructions for bf16.
void require_bf16() {
  if (cpu::has_brain_dot(cpu::active_isa())) return;
  throw Error(Code::unsupported, "this processor does not multiply bf16",
              {.where = "--precision bf16",
               .why = std::string("that takes AVX-512 with BF16, or AMX, and kernels are for ") +
                      cpu::isa_name(cpu::active_isa()),
               .hint = "leave out --precision, or give fp32 or int8"});
}

/// Throws Error(unsupported) where the device has no instructions for e4m3.
void require_float8(const std::string& device, const std::string& where) {
  if (has_float8(device)) return;
  throw Error(Code::unsupported, std::string(device == "cpu" ? "the CPU" : "this GPU") + " does not compute in fp8",
              {.where = where,
               .why = "that takes a GPU of compute capability 8.9 or later",
               .hint = device == "cpu" ? "give --device cuda, or --precision int8" : "give --precision int8 or fp16"});
}

/// Throws Error(unsupported) for a precision that the device does not compute in, or a device that is not there.
void choose_device(plan::Plan& plan, const BuildOptions& options) {
  static constexpr const char* names[] = {"fp32", "tf32", "fp16", "bf16", "int8", "fp8"};
  plan.device = options.device;
  const bool gpu = options.device != "cpu";
  if (gpu) cuda::Device::get(cuda::index_of(options.device));
  if (options.precision == Precision::best) plan.precision = options.calibrator ? "int8" : gpu ? "fp16" : "fp32";
  else plan.precision = names[static_cast<int>(options.precision)];
  if (plan.precision == "fp8") require_float8(options.device, "--precision fp8");
  else if (!gpu && plan.precision == "bf16") require_bf16();
  else if (!gpu && plan.precision != "fp32" && plan.precision != "int8")
    throw Error(
        Code::unsupported, "the CPU computes in fp32, bf16 and int8 only",
        {.where = "--precision " + plan.precision, .hint = "leave out --precision, or give fp32, bf16 or int8"});
  plan.bf16 = !gpu && plan.precision == "bf16";
}

}  // namespace

/// The whole compiler: import, optimise, quantise, plan, tune.
Engine build(const std::string& model, const BuildOptions& options) {
  auto impl = std::make_shared<Engine::Impl>();
  plan::Plan& plan = impl->plan;
  choose_device(plan, options);
  std::vector<onnx::Listed> listed;
  plan.graph = onnx::import_file(model, {options.external_root, options.lenient, options.warn, {}, &listed});
  plan::SourceTracker tracker(std::move(listed), plan.graph);
  if (options.warn)
    if (const std::string odd = onnx::odd_weights(plan.graph); !odd.empty()) options.warn(odd);
  bool eight_bits = plan.precision == "int8" || plan.precision == "fp8";
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
  plan.strict = options.strict;
  plan.vendor = options.vendor;
  plan.isa = cpu::isa_name(cpu::detect_isa());
  plan::TimingCache cache(options.timing_cache, plan.isa);
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
        plan::tune(one, cache.records(), options.budget_seconds, options.progress);
        cache.add(one.records);
      });
    cache.add(plan.records);
  }
  if (plan.device != "cpu") runtime::rank(plan, cache, options.budget_seconds, options.progress);
  for (const auto& [key, text] : options.metadata) plan.graph.metadata[key] = text;
  return Engine(std::move(impl));
}

Engine retune(const Engine& engine, const BuildOptions& options) {
  auto impl = std::make_shared<Engine::Impl>(engine.on(options.device).impl());
  plan::Plan& plan = impl->plan;
  const bool gpu = plan.device != "cpu";
  const bool brain = options.precision == Precision::bf16;
  const bool narrow = brain || options.precision == Precision::fp16 || options.precision == Precision::best;
  const bool fp8 = options.precision == Precision::fp8;
  if ((fp8 || options.precision == Precision::int8) && plan.precision != (fp8 ? "fp8" : "int8"))
    throw Error(Code::unsupported, "an engine cannot be calibrated",
                {.hint = std::string("build the model with --precision ") + (fp8 ? "fp8" : "int8")});
  if (!gpu && brain) require_bf16();
  if (!gpu && plan.precision != "int8") {
    plan.precision = brain ? "bf16" : "fp32";
    plan.bf16 = brain;
  }
  if (gpu) passes::adapt_to_gpu(plan.graph, options.skip_passes);
  if (gpu && plan.precision == "fp32" && options.precision == Precision::tf32) plan.precision = "tf32";
  if (gpu && narrow && (plan.precision == "fp32" || plan.precision == "tf32")) {
    plan.precision = brain ? "bf16" : "fp16";
    passes::narrow(plan.graph, narrow_type(plan), options.skip_passes);
  } else if (gpu) {
    (plan.precision == "tf32" ? passes::round_products : passes::join_attention)(plan.graph, options.skip_passes);
  }
  plan.vendor = options.vendor;
  for (const auto& [name, sizes] : options.shapes) plan.shapes[name] = sizes;
  for (const auto& [key, text] : options.metadata) plan.graph.metadata[key] = text;
  if (options.threads > 0) plan.threads = options.threads;
  plan.isa = cpu::isa_name(cpu::detect_isa());
  plan::TimingCache cache(options.timing_cache, plan.isa);
  const auto tune = gpu ? plan::tune_cuda : plan::tune;
  tune(plan, cache.records(), options.budget_seconds, options.progress);
  cache.add(plan.records);
  if (gpu) runtime::rank(plan, cache, options.budget_seconds, options.progress);
  return Engine(std::move(impl));
}

Engine Engine::on(const std::string& device) const {
  if (device != "cpu") cuda::Device::get(cuda::index_of(device));
  if (impl_->plan.precision == "fp8") require_float8(device, "an engine in fp8");
  auto impl = std::make_shared<Engine::Impl>(*impl_);
  impl->plan.device = device;
  if (device == "cpu" && impl_->plan.device != "cpu") passes::return_to_cpu(impl->plan.graph);
  return Engine(std::move(impl));
}

Engine open(const std::string& path, const BuildOptions& options) {
  return is_engine_file(path) ? Engine::load(path) : build(path, options);
}

}  // namespace tenon

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
#include "quant/calibrate.h"
#include "quant/choose.h"
#include "quant/evidence.h"
#include "quant/export.h"
#include "quant/float8.h"
#include "quant/materialise.h"
#include "runtime/device_rank.h"

namespace tenon {

namespace {
/// Chooses how to quantise a floating point graph.
quant::Recipe calibrate(const plan::Plan& plan, const ir::Graph& imported, const plan::Records& known,
                        const BuildOptions& options) {
  if (!options.calibrator)
    throw Error(Code::usage, "eight bits need calibration data",
                {.hint = "tenon build takes --data; in C++ set BuildOptions::calibrator"});
  quant::Setting setting{options.calibration, options.shapes, plan.threads, known, options.progress, options.warn};
  if (plan.precision == "fp8") {
    // Floats have range to spare: nothing is cut off, and their errors are not those of integers.
    setting.by_channel = setting.options.reconstruct = false;
    setting.options.target_error = std::numeric_limits<double>::infinity();
    if (setting.options.method == CalibrationMethod::automatic) setting.options.method = CalibrationMethod::min_max;
  }
  setting.names = quant::same_tensors(plan.graph, imported);
  quant::Recipe recipe = quant::calibrate(plan.graph, *options.calibrator, setting);
  return plan.precision == "fp8" ? quant::float8_part(plan.graph, recipe) : recipe;
}

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

Engine engine_of(plan::Plan plan) {
  auto impl = std::make_shared<Engine::Impl>();
  impl->plan = std::move(plan);
  return Engine(std::move(impl));
}

void warn_of_floats(const BuildOptions& options, const std::string& precision, const std::string& why) {
  if (!options.warn) return;
  const char* eight = options.precision == Precision::fp8 ? "FP8" : "INT8";
  options.warn(std::string(eight) + " does not pay on this machine: " + why + "; the engine is " + precision);
}

/// What an engine of eight bits computes otherwise in: 16 bits where a judge sees what that loses, or on a GPU.
std::string floats_beside(const plan::Plan& plan, const BuildOptions& options) {
  if (plan.device != "cpu") return "fp16";
  const bool measures = options.budget_seconds != 0 && options.objective != Objective::size;
  return options.judge && measures && cpu::has_brain_dot(cpu::active_isa()) ? "bf16" : "fp32";
}

/// Both were judged, and one was timed in turn with what is in eight bits: their ratio gives the other.
void time_both(plan::SearchPoint& one, const plan::Plan& one_plan, plan::SearchPoint& other,
               const plan::Plan& other_plan) {
  const auto [one_us, other_us] = quant::race(one_plan, other_plan);
  if (one.milliseconds > 0) other.milliseconds = one.milliseconds * other_us / one_us;
  else if (other.milliseconds > 0) one.milliseconds = other.milliseconds * one_us / other_us;
}

/// The quantised plan where it is faster than the floating point one, layer by layer, and the floating point one where
/// it is not at all; with a judge, the fastest that loses little enough. Without time to measure, or sizes to measure
/// at, and where the engine is to be small, everything is quantised that may be.
class EightBits {
 public:
  EightBits(const plan::Plan& plan, const plan::SourceTracker& tracker, plan::TimingCache& cache,
            const BuildOptions& options)
      : base_(plan), exact_(plan), floats_(plan), tracker_(tracker), cache_(cache), options_(options) {
    exact_.precision = "fp32";
    exact_.bf16 = false;
    floats_.precision = floats_beside(plan, options);
    floats_.bf16 = floats_.precision == "bf16";
  }

  plan::Plan plan(const ir::Graph& imported) {
    // First of all, so that data which does not fit the model is known before the long part.
    if (options_.judge) judge_floats();
    recipe_ = calibrate(base_, imported, cache_.records(), options_);
    measures_ = options_.objective != Objective::size && options_.budget_seconds != 0 && !recipe_.anchors.empty() &&
                plan::is_static(plan::concretise(base_.graph, options_.shapes));
    if (measures_ && !options_.judge) finish_as(floats_);
    floats_.evidence = evidence_of({});
    return options_.judge ? judged() : faster();
  }

 private:
  void finish_as(plan::Plan& one) {
    finish(one, tracker_, cache_.records(), options_);
    cache_.add(one.records);
  }

  /// Makes what others are judged against, and what stays of 16 bits where that loses little enough.
  void judge_floats() {
    finish_as(exact_);
    const double value = options_.judge->reference(engine_of(exact_));
    const double limit = options_.max_drop.value_or(options_.judge->usual_drop());
    search_ = {options_.judge->metric(), options_.judge->samples(), limit, {{0, value}}, {}};
    if (floats_.precision == exact_.precision) {
      floats_ = exact_;
      return;
    }
    finish_as(floats_);
    const Score score = options_.judge->score(engine_of(floats_));
    const plan::SearchPoint point{0, score.value, score.drop, score.low, score.high, 0, {}, false, floats_.precision};
    beside_ = floats_;
    if (!floats_.bf16 || score.drop <= limit) {
      search_.points.push_back(point);
      return;
    }
    refused_ = point;
    floats_ = exact_;
  }

  /// Errors that calibration measured are those of integers.
  plan::Evidence evidence_of(const quant::Recipe& how) const {
    return base_.precision == "fp8" ? plan::Evidence() : quant::evidence_as_placed(base_.graph, recipe_, how);
  }

  plan::Plan quantised(const quant::Recipe& how) {
    plan::Plan result = base_;
    result.bf16 = floats_.bf16;
    if (base_.precision == "fp8") quant::materialise_float8(result.graph, how);
    else quant::materialise(result.graph, how);
    result.evidence = evidence_of(how);
    finish_as(result);
    return result;
  }

  quant::Pace trial(const quant::Recipe& how) {
    const auto make = [&](const quant::Recipe& some) { return quantised(some); };
    if (measures_) return quant::keep_faster(base_.graph, floats_, how, make);
    if (options_.objective == Objective::size) return quant::by_size(base_.graph, how, quantised(how));
    return {quantised(how), 0, 0, how, {}};
  }

  plan::Plan judged() {
    const auto try_out = [&](const quant::Recipe& how) { return trial(how); };
    const auto score = [&](const plan::Plan& one) { return options_.judge->score(engine_of(one)); };
    std::optional<quant::Pace> best =
        quant::choose({base_.graph, recipe_, search_.limit, options_.objective, try_out, score}, search_);
    if (refused_) search_.points.push_back(*refused_);
    if (measures_ && beside_)
      time_both(search_.points[0], exact_, refused_ ? search_.points.back() : search_.points[1], *beside_);
    exact_.evidence = floats_.evidence;
    plan::Plan result = std::move(best ? best->quantised : search_.points[0].chosen ? exact_ : floats_);
    result.evidence.search = search_;
    if (!best) warn_of_floats(options_, result.precision, search_.why);
    return result;
  }

  plan::Plan faster() {
    quant::Pace pace = trial(recipe_);
    // On a GPU what is nearly as fast is ranked first, as the engine will be.
    constexpr double nearly = 1.15;
    if (measures_ && base_.device != "cpu" && pace.int8_us * nearly > pace.float_us &&
        pace.int8_us < pace.float_us * nearly) {
      for (plan::Plan* one : {&pace.quantised, &floats_})
        runtime::rank(*one, cache_, options_.budget_seconds, options_.progress);
      const auto [int8_ms, float_ms] = runtime::race(pace.quantised, floats_);
      pace.int8_us = int8_ms * 1e3, pace.float_us = float_ms * 1e3;
    }
    if (!measures_ || pace.int8_us < pace.float_us) return std::move(pace.quantised);
    warn_of_floats(options_, floats_.precision,
                   fmt::format("{:.3g} ms against {:.3g} ms", pace.int8_us / 1e3, pace.float_us / 1e3));
    return std::move(floats_);
  }

  const plan::Plan base_;
  plan::Plan exact_, floats_;  // FP32, and what stays in floating point beside eight bits
  const plan::SourceTracker& tracker_;
  plan::TimingCache& cache_;
  const BuildOptions& options_;
  plan::Search search_;
  std::optional<plan::Plan> beside_;          // that of 16 bits
  std::optional<plan::SearchPoint> refused_;  // where bf16 alone loses too much
  quant::Recipe recipe_;
  bool measures_ = false;
};

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
  plan.graph = onnx::import_file(model, {}, options.external_root, &listed);
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
    plan = EightBits(plan, tracker, cache, options).plan(imported);
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

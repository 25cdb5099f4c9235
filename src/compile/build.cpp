// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <tenon/tenon.hpp>

#include <algorithm>
#include <limits>
#include <utility>

#include "backends/backend.h"
#include "base/counted.h"
#include "base/file.h"
#include "base/noise.h"
#include "base/open_file.h"
#include "base/pages.h"
#include "base/thread_pool.h"
#include "compile/packed_forms.h"
#include "compile/rank.h"
#include "compile/tune.h"
#include "engine/engine.h"
#include "onnx/import.h"
#include "onnx/odd_weights.h"
#include "onnx/training.h"
#include "passes/pass.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "plan/sources.h"
#include "plan/timing_cache.h"
#include "compile/int8.h"
#include "compile/weight_only.h"
#include "compile/latency_check.h"
#include "quant/structure.h"

namespace tenon {

namespace {
constexpr double usual_rank_seconds = 4;  // before it has a pace of its own

/// Reads the model, and lists its nodes.
using Import = std::function<ir::Graph(std::vector<onnx::Listed>&)>;

const backends::Backend& backend_of(const plan::Plan& plan) { return backends::backend(plan.device); }

/// The sizes that are tuned for, or first tuned for.
Shapes best_sizes(const BuildOptions& options) {
  Shapes shapes = options.shapes;
  if (!options.profiles.empty())
    for (const auto& [name, sizes] : options.profiles[0].opt) shapes[name] = sizes;
  return shapes;
}

/// Does the work for the plan's sizes, or in their place for the best sizes of each profile.
template <class Work>
void for_each_profile(plan::Plan& plan, const Work& work) {
  if (plan.profiles.empty()) return work();
  for (const Profile& profile : plan.profiles) {
    plan.shapes = profile.opt;
    work();
  }
  plan.shapes = plan.profiles[0].opt;
}

/// Tunes, and keeps account of what disturbed that.
class QuietTuning {
 public:
  QuietTuning(const plan::TimingCache& cache, const BuildOptions& options) : cache_(cache), options_(options) {}
  void operator()(plan::Plan& plan) {
    const NoiseMeter meter;
    tuned_ += compile::tune(plan, cache_.records(), disturbed_, options_.budget_seconds, options_.progress);
    other_cores_ = std::max(other_cores_, meter.read().other_cores);
  }
  void warn() const {
    if (tuned_.disturbed == 0) return;
    std::string text = fmt::format(
        "the machine was busy while kernels were timed: {} of {} times were disturbed and are not kept, and the engine "
        "may be slower than one that is built on an idle machine",
        tuned_.disturbed, tuned_.tactics);
    if (other_cores_ > 0.1) text += fmt::format(" (other processes took {:.1f} cores)", other_cores_);
    options_.logger.log(Severity::warning, text);
  }

 private:
  const plan::TimingCache& cache_;
  const BuildOptions& options_;
  compile::Tuned tuned_;
  compile::Disturbed disturbed_;
  double other_cores_ = 0;
};

/// From an optimised graph to the kernels of the plan's device.
void finish(plan::Plan& plan, plan::SourceTracker tracker, QuietTuning& tune, const BuildOptions& options) {
  tracker.note(backend_of(plan).lower(plan.graph, plan.device, plan.goal, options.skip_passes));
  plan.sources = tracker.finish(plan.graph);
  const ir::Graph concrete = plan::concretise(plan.graph, best_sizes(options));
  for (ir::ValueId input : concrete.inputs) {
    const ir::Value& value = concrete.value(input);
    if (!value.shape || !ir::is_constant(*value.shape)) continue;
    for (const ir::Dim& dim : *value.shape) plan.shapes[value.name].push_back(dim.value());
    plan.shapes.try_emplace(value.name);
  }
  plan::set_profiles(plan, options.profiles, options.shapes);
  for_each_profile(plan, [&] { tune(plan); });
}

/// Whether layers of a model that came quantised may be faster in floating point, and can be timed.
bool may_use_f32(const plan::Plan& plan, const BuildOptions& options) {
  const bool fast = backend_of(plan).capabilities(plan.device).fast_integers;
  return (!fast || passes::has_int16_convs(plan.graph)) && options.budget_seconds != 0 &&
         plan::is_static(plan::concretise(plan.graph, plan.shapes));
}

std::string host_isa() { return backends::host().capabilities(Device()).isa; }

/// FP16 and TF32 allow a device to round: where it cannot, FP32 stands in, with a warning, so that the same build works
/// on every device.
Precision precision_on(const backends::Backend& backend, const Device& device, const BuildOptions& options) {
  const Precision wanted = options.precision;
  if (wanted != Precision::fp16 && wanted != Precision::tf32) return wanted;
  try {
    backend.require(device, wanted, "");
    return wanted;
  } catch (const Error&) {
    options.logger.log(Severity::warning, fmt::format("{} does not compute in {}: the engine computes in {}",
                                                      device.str(), name(wanted), name(Precision::fp32)));
    return Precision::fp32;
  }
}

/// Throws Error(unsupported) for a precision that the device does not compute in, or a device that is not there.
void choose_device(plan::Plan& plan, const BuildOptions& options) {
  plan.device = options.device;
  const backends::Backend& backend = backend_of(plan);
  backend.require(plan.device);
  const backends::Capabilities can = backend.capabilities(plan.device);
  backends::Goal& goal = plan.goal;
  goal.precision = precision_on(backend, plan.device, options);
  if (goal.precision == Precision::best) goal.precision = options.calibrator ? Precision::int8 : can.floats;
  backend.require(plan.device, goal.precision, "--precision " + std::string(name(goal.precision)));
  goal.rounds_to_bf16 = can.rounds_layers && goal.precision == Precision::bf16;
  goal.strict = options.strict;
  goal.vendor = options.vendor;
  goal.isa = host_isa();
}

/// As the options say; `listed` gets every node of the file, `files` what the model is in.
onnx::ImportOptions import_options(const BuildOptions& options, std::vector<onnx::Listed>& listed, Files& files) {
  const auto warn = [&options](const std::string& text) { options.logger.log(Severity::warning, text); };
  return {options.external_root, options.lenient, warn, {}, &listed, &files};
}

/// What the symbols of a graph's inputs stand for in tensors of these sizes.
std::map<std::string, int64_t> usual_sizes(const ir::Graph& graph, const Shapes& shapes) {
  std::map<std::string, int64_t> usual;
  for (const ir::ValueId input : graph.inputs) {
    const ir::Value& value = graph.value(input);
    const auto sizes = shapes.find(value.name);
    if (!value.shape || sizes == shapes.end() || sizes->second.size() != value.shape->size()) continue;
    for (size_t axis = 0; axis < value.shape->size(); ++axis)
      if (!(*value.shape)[axis].is_constant() && sizes->second[axis] >= 0)
        usual[(*value.shape)[axis].str()] = sizes->second[axis];
  }
  return usual;
}

void warn_of(const plan::TimingCache& cache, const BuildOptions& options) {
  if (!cache.why_not().empty()) options.logger.log(Severity::warning, "times are not kept: " + cache.why_not());
}

int threads_of(const BuildOptions& options, int otherwise) {
  if (options.threads > ThreadPool::most_threads)
    throw Error(Code::usage, "cannot run on " + std::to_string(options.threads) + " threads",
                {.where = "--threads", .hint = "give 1 to " + std::to_string(ThreadPool::most_threads)});
  return options.threads > 0 ? options.threads : std::min(otherwise, ThreadPool::most_threads);
}

/// What passes read of the model's file; where it is mapped in large pages, a few bytes hold much.
void release_constants(const ir::Graph& graph) {
  for (const ir::Value& value : graph.values)
    if (value.is_constant() && value.dtype != DType::string && value.dtype != DType::sequence)
      release_pages(value.constant.data(), value.constant.bytes());
}

/// The whole compiler: import, optimise, quantise, plan, tune.
plan::Plan compiled(const Import& import, const BuildOptions& given) {
  BuildOptions options = given;
  options.shapes = best_sizes(given);
  compile::Pace pace(given.progress);
  pace.expect("tune", 1), pace.begin_with("compile", "tune");
  options.progress = pace.progress();
  plan::Plan plan;
  choose_device(plan, options);
  if (backend_of(plan).capabilities(plan.device).concurrent) pace.expect_seconds("rank", 1, usual_rank_seconds);
  plan::TimingCache cache(options.timing_cache, plan.goal.isa);
  warn_of(cache, options);
  QuietTuning tune(cache, options);
  std::vector<onnx::Listed> listed;
  plan.graph = import(listed);
  plan.graph.usual = usual_sizes(plan.graph, options.shapes);
  options.logger.log(Severity::info, "imported " + counted(listed.size(), "node"));
  plan::SourceTracker tracker(std::move(listed), plan.graph);
  if (options.logger.takes(Severity::warning))
    for (const std::string& odd : {onnx::odd_weights(plan.graph), onnx::training_nodes(plan.graph)})
      if (!odd.empty()) options.logger.log(Severity::warning, odd);
  bool quantises = is_quantised(plan.goal.precision);
  const bool came_quantised = quant::is_quantised(plan.graph);
  if (quantises && came_quantised) {
    quantises = false;
    options.logger.log(Severity::warning, "the model is quantised already and is built as it is, without the data");
  }
  const auto& keep = options.calibration.keep;
  if (!keep.empty() && !quantises && !came_quantised)
    throw Error(Code::usage, "every layer is in floating point", {.where = "--keep", .hint = "give --precision int8"});
  const ir::Graph imported = quantises ? plan.graph : ir::Graph();
  std::vector<std::string> skip = options.skip_passes;
  // Sums of weights as different as those of branches round badly to integers.
  if (quantises || options.precision == Precision::best) skip.push_back("merge_branches");
  tracker.note(passes::optimise(plan.graph, skip));
  release_constants(plan.graph);

  plan.threads = threads_of(options, usable_cores());
  if (options.weights != Weights::given) {
    plan = compile::plan_weight_only(std::move(plan), options, [&](plan::Plan& one) {
      finish(one, tracker, tune, options);
      cache.add(one.records);
    });
  } else if (quantises) {
    const auto finish_one = [&](plan::Plan& one) {
      finish(one, tracker, tune, options);
      cache.add(one.records);
    };
    plan = compile::plan_int8({plan, imported, options, cache, pace, finish_one});
  } else {
    if (!keep.empty()) {
      tracker.note(passes::lower(plan.graph, options.skip_passes));
      compile::kept_to_f32(plan.graph, keep);
    }
    finish(plan, tracker, tune, options);
    if (came_quantised && may_use_f32(plan, options))
      plan = compile::slower_to_f32(std::move(plan), [&](plan::Plan& one) {
        tune(one);
        cache.add(one.records);
      });
    cache.add(plan.records);
    for_each_profile(plan, [&] { compile::choose_packed_forms(plan); });
  }
  tune.warn();
  for_each_profile(plan, [&] { compile::rank(plan, cache, options.budget_seconds, options.progress); });
  plan.carried = options.state;
  plan::check_carried(plan);
  for (const auto& [key, text] : options.metadata) plan.graph.metadata[key] = text;
  return plan;
}

plan::Plan retuned(const Engine& engine, const BuildOptions& options) {
  plan::Plan plan = plan_of(engine.on(options.device));
  if (is_quantised(options.precision) && plan.goal.precision != options.precision)
    throw Error(Code::unsupported, "an engine cannot be calibrated",
                {.hint = "build the model with --precision " + std::string(name(options.precision))});
  plan.goal = backend_of(plan).retarget(plan.graph, plan.goal, options.precision, options.skip_passes);
  plan.goal.vendor = options.vendor;
  plan.goal.isa = host_isa();
  plan.shapes = plan::merged(std::move(plan.shapes), options.shapes);
  if (!options.profiles.empty()) plan::set_profiles(plan, options.profiles, options.shapes);
  if (!options.state.empty()) plan.carried = options.state, plan::check_carried(plan);
  for (const auto& [key, text] : options.metadata) plan.graph.metadata[key] = text;
  plan.threads = threads_of(options, plan.threads);
  plan::TimingCache cache(options.timing_cache, plan.goal.isa);
  warn_of(cache, options);
  QuietTuning tune(cache, options);
  for_each_profile(plan, [&] { tune(plan); });
  tune.warn();
  cache.add(plan.records);
  if (!is_quantised(plan.goal.precision)) for_each_profile(plan, [&] { compile::choose_packed_forms(plan); });
  for_each_profile(plan, [&] { compile::rank(plan, cache, options.budget_seconds, options.progress); });
  return plan;
}

/// Runs `work`, which gives a plan of weights in `files`, under the options' limits, and tells their logger how it
/// ended.
template <class Work>
Engine logged(const BuildOptions& options, const Files& files, const Work& work) try {
  const auto budget = Budget::of(options.limits);
  const BudgetScope scope(budget);
  plan::Plan made = of_whole(files, work);
  plan::make_steps(made);
  auto impl = std::make_shared<EngineAccess::Impl>(
      EngineAccess::Impl{.plan = std::move(made), .files = files, .logger = options.logger, .budget = budget});
  const plan::Plan& plan = impl->plan;
  options.logger.log(Severity::info, "built for " + plan.device.str() + " in " +
                                         std::string(name(plan.goal.precision)) + ": " +
                                         counted(plan.graph.nodes.size(), "node") + ", " +
                                         std::to_string(plan.records.size()) + " timed problems");
  return EngineAccess::make(std::move(impl));
} catch (const Error& error) {
  options.logger.log(Severity::error, error.text());
  throw;
} catch (const std::exception& fault) {
  options.logger.log(Severity::internal_error, fault.what());
  throw;
}

/// `files`: what the bytes are of.
Engine build_bytes(const Buffer& model, const std::string& name, const BuildOptions& options, Files files = {}) {
  const auto import = [&](std::vector<onnx::Listed>& listed) {
    return onnx::import_bytes(model.bytes(), options.external_root, name, model.keep(),
                              import_options(options, listed, files));
  };
  return logged(options, files, [&] { return compiled(import, options); });
}
}  // namespace

Engine build(const std::string& model, const BuildOptions& options) {
  Files files;
  const auto import = [&](std::vector<onnx::Listed>& listed) {
    return onnx::import_file(model, import_options(options, listed, files));
  };
  return logged(options, files, [&] { return compiled(import, options); });
}

Engine build(const Buffer& model, const BuildOptions& options) {
  return build_bytes(model, "a model in memory", options);
}

Engine build(std::span<const std::byte> model, const BuildOptions& options) {
  return build(Buffer(model.data(), model.size(), nullptr), options);
}

Engine build_fd(int descriptor, const BuildOptions& options) {
  const std::string name = "file descriptor " + std::to_string(descriptor);
  const auto file = open_file(descriptor, name);
  return build_bytes({file->bytes().data(), file->bytes().size(), file}, name, options, {file});
}

Engine retune(const Engine& engine, const BuildOptions& options) {
  return logged(options, EngineAccess::of(engine).files, [&] { return retuned(engine, options); });
}

Engine Engine::on(const Device& device) const {
  const backends::Backend& backend = backends::backend(device);
  backend.require(device);
  plan::Plan plan = impl_->plan;
  if (plan.goal.precision == Precision::fp8) backend.require(device, Precision::fp8, "an engine in fp8");
  plan.device = device;
  if (device.backend != impl_->plan.device.backend) backend.take_over(plan.graph, device);
  return with_plan(*this, std::move(plan));
}

Engine open(const std::string& path, const BuildOptions& options) {
  if (!is_engine_file(path)) return build(path, options);
  return Engine::load(path, {.logger = options.logger, .limits = options.limits});
}

}  // namespace tenon

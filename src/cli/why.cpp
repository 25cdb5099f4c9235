// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "backends/backend.h"
#include "cli/arrays.h"
#include "base/nearest.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "cli/verb.h"
#include "engine/engine.h"
#include "explain/floor.h"
#include "explain/report.h"
#include "explain/switch.h"

namespace tenon::cli::why_verb {
namespace {

constexpr int profiled_runs = 10;
constexpr size_t most_runs = 30;
constexpr uint64_t first_seed = 1;

struct Options : ModelOptions {
  std::string node, json;
  bool recorded = false, audit = false, all = false;
};

/// Random inputs of the engine's sizes; none where these are not known.
std::vector<Tensor> random_inputs(const Engine& engine) {
  const Shapes& shapes = plan_of(engine).shapes;
  std::vector<Tensor> inputs;
  for (const TensorInfo& info : engine.inputs()) {
    const auto sizes = shapes.find(info.name);
    if (sizes == shapes.end()) return {};
    inputs.push_back(random_array(info.dtype, Dims(sizes->second), first_seed + inputs.size()));
  }
  return inputs;
}

/// Times of the steps, and into `runs`, where given, of the whole.
std::vector<LayerTime> profile(const Engine& engine, int threads, explain::Runs* runs = nullptr) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  Session session = engine.session(threads);
  const std::vector<Tensor> inputs = random_inputs(engine);
  std::vector<Tensor> outputs(engine.outputs().size());
  if (inputs.size() < engine.inputs().size()) return {};
  session.run(std::span<const Tensor>(inputs), outputs);
  std::vector<double> times;
  for (const auto begin = Clock::now(); runs && times.size() < most_runs && (times.size() < 3 || since(begin) < 2);) {
    const auto start = Clock::now();
    session.run(std::span<const Tensor>(inputs), outputs);
    times.push_back(1e6 * since(start));
  }
  if (runs) *runs = explain::runs_of(std::move(times));
  return session.profile(inputs, profiled_runs);
}

int audit(const Options& options, const plan::Evidence& evidence) {
  if (evidence.empty())
    throw Error(Code::usage, "the engine holds no calibration to audit",
                {.where = options.model, .hint = "build it with --precision int8 --data"});
  if (!options.json.empty()) write_json(options.json, explain::audit_json(evidence));
  if (options.json != "-") write_out(explain::audit_text(evidence));
  return 0;
}

int work(const Options& options) {
  const Engine engine = options.open();
  const plan::Plan& plan = plan_of(engine);
  if (options.audit) return audit(options, plan.evidence);
  const int threads = options.threads > 0 ? options.threads : plan.threads;
  explain::Runs runs;
  const std::vector<LayerTime> layers = options.recorded ? std::vector<LayerTime>() : profile(engine, threads, &runs);
  explain::Report report = explain::explain(plan, layers, threads);
  report.runs = runs;
  for (std::string& doubt : explain::doubts_of(report)) report.notes.push_back(std::move(doubt));
  if (!options.recorded)
    if (const auto other = explain::switched(plan)) explain::compare(report, profile(*other, threads));
  if (!options.recorded)
    if (const auto limits = backends::backend(plan.device).limits(plan.device, threads))
      explain::set_floors(report, *limits);
  if (!options.json.empty()) write_json(options.json, explain::json(report));
  if (options.json != "-") write_out(explain::text(report, options.node, nearest, options.all));
  return 0;
}

std::function<int()> add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Flags flags(app);
  options->add_to(app);
  flags.add("NODE", options->node, "Show this node of the model only");
  flags.add("--audit", options->audit, "Show the calibration: its data, coverage, and the range of every tensor");
  flags.add("--recorded", options->recorded, "Run nothing: show the times that the build measured");
  flags.add("--all", options->all, "Show every step in order, all refusals of kernels, and nodes that need no step");
  add_json(app, options->json);
  flags.footer(
      "For each of the ten costliest steps: arithmetic, kernel, time, share; candidates with their times alone, or\n"
      "why they refuse; what INT8 would gain and cost. Behind them totals by kind. --all has every node of the model.\n"
      "Runs of the whole are timed, too: it is said where they differ, or take another time than in the build.\n"
      "Steps of 3 % and more of the network that take 4 times what their bytes and products need on this machine are\n"
      "listed as far from the floor, with the reasons of the kernels that refused them.\n"
      "Examples:\n"
      "  tenon why model.tenon\n"
      "  tenon why model.tenon /model.0/conv/Conv\n"
      "  tenon why model.tenon --audit\n"
      "  tenon why model.tenon --recorded --json -");
  return [options] { return work(*options); };
}

const Registrar registrar({7, "why", "Explain an engine: the kernel and time of every node, and what to do", add});

}  // namespace
}  // namespace tenon::cli::why_verb

// SPDX-License-Identifier: Apache-2.0
#include "explain/why.h"

#include <tenon/explain.h>

#include <chrono>

#include "backends/backend.h"
#include "base/nearest.h"
#include "base/random_array.h"
#include "engine/engine.h"
#include "explain/floor.h"
#include "explain/inspect.h"
#include "explain/switch.h"

namespace tenon {
namespace explain {
namespace {

constexpr int profiled_runs = 10;
constexpr size_t most_runs = 30;
constexpr uint64_t first_seed = 1;

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
std::vector<LayerTime> profile(const Engine& engine, int threads, Runs* runs = nullptr) {
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
  if (runs) *runs = runs_of(std::move(times));
  return session.profile(inputs, profiled_runs);
}

}  // namespace

Report examined(const Engine& engine, int threads, bool measure) {
  const plan::Plan& plan = plan_of(engine);
  if (threads == 0) threads = plan.threads;
  Runs runs;
  const std::vector<LayerTime> layers = measure ? profile(engine, threads, &runs) : std::vector<LayerTime>();
  Report report = explain(plan, layers, threads);
  report.runs = runs;
  for (std::string& doubt : doubts_of(report)) report.notes.push_back(std::move(doubt));
  if (!measure) return report;
  if (const auto other = switched(plan)) compare(report, profile(*other, threads));
  if (const auto limits = backends::backend(plan.device).limits(plan.device, threads)) set_floors(report, *limits);
  return report;
}

}  // namespace explain

namespace {

std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string inspect(const Engine& engine, TextFormat format, int threads) {
  const nlohmann::ordered_json json = explain::inspection(engine, threads);
  if (format == TextFormat::json) return dumped(json);
  return explain::inspection_text(engine, json, explain::Steps::printed, threads);
}

std::string why(const Engine& engine, const WhyOptions& options) {
  const explain::Report report = explain::examined(engine, options.threads, options.measure);
  if (options.format == TextFormat::json) return dumped(explain::json(report));
  return explain::text(report, options.node, nearest, options.all);
}

}  // namespace tenon

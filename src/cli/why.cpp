// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

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
constexpr uint64_t first_seed = 1;

struct Options : ModelOptions {
  std::string node, json;
  bool recorded = false, audit = false;
};

/// Times of the steps on random inputs of the engine's sizes.
std::vector<LayerTime> profile(const Engine& engine, int threads) {
  Session session = engine.session(threads);
  const Shapes& shapes = plan_of(engine).shapes;
  std::vector<Tensor> inputs, outputs(engine.outputs().size());
  for (const TensorInfo& info : engine.inputs()) {
    const auto sizes = shapes.find(info.name);
    if (sizes == shapes.end()) return {};
    inputs.push_back(random_array(info.dtype, Dims(sizes->second), first_seed + inputs.size()));
  }
  session.run(std::span<const Tensor>(inputs), outputs);
  return session.profile(inputs, profiled_runs);
}

/// What to say where the steps take another time than when the engine was built: shares and gains are of the present.
std::string time_change(const explain::Report& report) {
  constexpr double usual = 1.3;
  double recorded = 0, now = 0;
  for (const explain::Row& row : report.rows)
    if (report.measured && row.alone > 0 && row.microseconds > 0) recorded += row.alone, now += row.microseconds;
  if (recorded <= 0 || (now < usual * recorded && recorded < usual * now)) return "";
  return fmt::format(
      "the timed steps take {:.3f} ms now and took {:.3f} ms when they were recorded, each alone: the "
      "machine is busier, slower or faster than at the build, and percentages are of the present times",
      now / 1000, recorded / 1000);
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
  const std::vector<LayerTime> layers = options.recorded ? std::vector<LayerTime>() : profile(engine, threads);
  explain::Report report = explain::explain(plan, layers, threads);
  if (const std::string note = time_change(report); !note.empty()) report.notes.push_back(note);
  if (!options.recorded)
    if (const auto other = explain::switched(plan)) explain::compare(report, profile(*other, threads));
  if (!options.recorded)
    if (const auto limits = backends::backend(plan.device).limits(plan.device, threads))
      explain::set_floors(report, *limits);
  if (!options.json.empty()) write_json(options.json, explain::json(report));
  if (options.json != "-") write_out(explain::text(report, options.node, nearest));
  return 0;
}

std::function<int()> add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Flags flags(app);
  options->add_to(app);
  flags.add("NODE", options->node, "Show this node of the model only");
  flags.add("--audit", options->audit, "Show the calibration: its data, coverage, and the range of every tensor");
  flags.add("--recorded", options->recorded, "Run nothing: show the times that the build measured");
  add_json(app, options->json);
  flags.footer(
      "For each step: arithmetic, kernel, time, share; the candidates with their times alone, or why they refuse.\n"
      "Every node of the model is in the list; of those that take no step it says why.\n"
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

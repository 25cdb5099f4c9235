// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "cli/verb.h"
#include "engine/engine.h"
#include "explain/why.h"

namespace tenon::cli::why_verb {
namespace {

struct Options : ModelOptions {
  std::string node, json;
  bool recorded = false, audit = false, all = false;
};

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
  if (options.audit) return audit(options, plan_of(engine).evidence);
  const explain::Report report = explain::examined(engine, options.threads, !options.recorded);
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

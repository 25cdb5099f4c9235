// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "cli/flags.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "cli/verb.h"
#include "engine/engine.h"
#include "explain/inspect.h"
#include "onnx/import.h"
#include "ops/op.h"
#include "passes/pass.h"

namespace tenon::cli::inspect_verb {
namespace {

using Json = nlohmann::ordered_json;

struct Options : ModelOptions {
  std::string stage, json;
  bool passes = false;
};

/// A model can be looked at though some of its ops cannot be run.
bool any_op(const ir::OpId&) { return true; }

/// With the types that the file does not state, as far as they can be known.
ir::Graph typed(ir::Graph graph) {
  try {
    ops::infer(graph);
  } catch (const Error&) {
    // What is wrong with the model is the business of build; it can be looked at all the same.
  }
  return graph;
}

ir::Graph optimised(const Options& options) {
  ir::Graph graph = onnx::import_file(options.path(), options.import_options());
  passes::optimise(graph, options.skip_passes);
  passes::lower(graph, options.skip_passes);
  return graph;
}

int passes_of(const Options& options) {
  ir::Graph graph = onnx::import_file(options.path(), options.import_options());
  Json list = Json::array();
  std::vector<passes::PassRecord> records = passes::optimise(graph, options.skip_passes);
  for (passes::PassRecord& record : passes::lower(graph, options.skip_passes)) records.push_back(std::move(record));
  for (const passes::PassRecord& record : records) {
    list.push_back({{"name", record.name},
                    {"changed", record.changed},
                    {"nodes_before", record.nodes_before},
                    {"nodes_after", record.nodes_after},
                    {"ms", record.milliseconds}});
    if (options.json != "-")
      print_out("{:<28} {:6} -> {:6} nodes {:9.2f} ms{}\n", record.name, record.nodes_before, record.nodes_after,
                record.milliseconds, record.changed ? "" : "  (no change)");
  }
  if (!options.json.empty()) write_json(options.json, {{"passes", list}});
  return 0;
}

int plan_of(const Options& options) {
  const Engine engine = options.open();
  const Json json = explain::inspection(engine, options.threads);
  if (!options.json.empty()) write_json(options.json, json);
  if (options.json == "-") return 0;
  const auto steps = options.stage == "plan" ? explain::Steps::printed : explain::Steps::left_out;
  write_out(explain::inspection_text(engine, json, steps, options.threads));
  return 0;
}

int work(const Options& options) {
  if (options.passes) return passes_of(options);
  if (options.stage == "plan" || (options.stage.empty() && is_engine_file(options.path()))) return plan_of(options);
  if (!options.stage.empty() && options.stage != "import" && options.stage != "passes")
    throw Error(Code::usage, "no stage is called \"" + options.stage + "\"",
                {.where = "--stage", .hint = "give import, passes or plan"});
  if (is_engine_file(options.path()))
    throw Error(Code::usage, "an engine holds only the last stage",
                {.where = options.model, .hint = "give --stage plan, or the model that it was built from"});
  onnx::ImportOptions how = options.import_options();
  how.knows = any_op;
  const ir::Graph graph = options.stage == "passes" ? optimised(options) : onnx::import_file(options.path(), how);
  Json json = explain::summary(options.stage.empty() ? typed(graph) : graph);
  if (options.path() == options.model) json["file_bytes"] = std::filesystem::file_size(options.path());
  if (!options.json.empty()) write_json(options.json, json);
  if (options.json == "-") return 0;
  write_out(options.stage.empty() ? explain::summary_text(json) : ir::print(graph));
  return 0;
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto options = std::make_shared<Options>();
  options->add_to(app);
  flags.add("--stage", options->stage, "Print the graph after a stage: import, passes or plan")
      .value("NAME")
      .one_of({"import", "passes", "plan"});
  flags.add("--passes", options->passes, "Show what each optimisation pass changes");
  add_json(app, options->json);
  flags.footer(
      "Examples:\n"
      "  tenon inspect model.onnx\n"
      "  tenon inspect model.onnx --stage passes\n"
      "  tenon inspect model.tenon --json -");
  return [options] { return work(*options); };
}

const Registrar registrar({6, "inspect", "Show a model or engine: inputs, outputs, operations, sizes, memory", add});

}  // namespace
}  // namespace tenon::cli::inspect_verb

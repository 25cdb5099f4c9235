// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "backends/backend.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "cli/verb.h"
#include "engine/engine.h"
#include "onnx/import.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "plan/rest.h"

namespace tenon::cli::inspect_verb {
namespace {

using Json = nlohmann::ordered_json;

struct Options : ModelOptions {
  std::string stage, json;
  bool passes = false;
};

/// Inputs or outputs; the shape is null where the file does not state one, a size that may change -1.
Json ends_of(const ir::Graph& graph, const std::vector<ir::ValueId>& ids, const std::vector<std::string>& names = {}) {
  Json list = Json::array();
  for (size_t at = 0; at < ids.size(); ++at) {
    const ir::Value& value = graph.value(ids[at]);
    Json shape;
    if (value.shape) shape = Json::array();
    if (value.shape)
      for (const ir::Dim& dim : *value.shape) shape.push_back(dim.is_constant() ? dim.value() : -1);
    const std::string& called = at < names.size() ? names[at] : value.name;
    list.push_back({{"name", called}, {"dtype", name(value.dtype)}, {"shape", shape}});
  }
  return list;
}

/// What a graph holds: its ends, its ops by count, its constants.
Json summary(const ir::Graph& graph) {
  std::map<std::string, int> ops;
  for (const ir::Node& node : graph.nodes)
    if (node.alive) ++ops[node.op];
  int64_t parameters = 0, bytes = 0;
  for (const ir::Value& value : graph.values)
    if (value.is_constant() && value.dtype != DType::string && value.dtype != DType::sequence) {
      parameters += value.constant.elements();
      bytes += static_cast<int64_t>(value.constant.bytes());
    }
  return {{"inputs", ends_of(graph, graph.inputs)},
          {"outputs", ends_of(graph, graph.outputs, graph.output_names)},
          {"ops", ops},
          {"parameters", parameters},
          {"weights_bytes", bytes},
          {"metadata", graph.metadata}};
}

void print(const Json& json) {
  for (const char* end : {"inputs", "outputs"})
    for (const Json& info : json[end])
      print_out("{:<8} {}  {} {}\n", std::string(end).substr(0, std::strlen(end) - 1),
                printable(info["name"].get<std::string>()),
                info["dtype"] == "undefined" ? "of unstated type" : info["dtype"].get<std::string>(),
                info["shape"].is_null() ? "of unstated shape" : shape_text(info["shape"].get<std::vector<int64_t>>()));
  print_out("{:<8} {}, {}\n", "weights", counted(json["parameters"].get<int64_t>(), "element"),
            bytes_text(json["weights_bytes"]));
  for (const auto& [op, count] : json["ops"].items())
    print_out("{:<8} {:5} x {}\n", "op", count.get<int>(), printable(op));
  for (const auto& [key, value] : json["metadata"].items())
    print_out("{:<8} {} = {}\n", "meta", printable(key), printable(value.get<std::string>()));
}

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

/// "images 1x3x64x64 to 8x3x640x640, best 4x3x320x320"
std::string range_text(const Profile& profile) {
  std::string text;
  for (const auto& [input, best] : profile.opt)
    text += fmt::format("{}{} {} to {}, best {}",
                        !text.empty()          ? "; "
                        : profile.name.empty() ? ""
                                               : printable(profile.name) + ": ",
                        printable(input), shape_text(profile.min.at(input)), shape_text(profile.max.at(input)),
                        shape_text(best));
  return text;
}

/// What runs behind sizes that data decides: steps, here at usual sizes, and the nodes that say sizes.
void print_rest(const plan::Rest& rest) {
  for (const plan::RestPart& part : rest.parts) {
    print_out("rest     {}, as their sizes come{}\n", counted(part.graph.nodes.size(), "node"),
              part.planned ? ": steps, here for usual ones" : "");
    if (!part.planned) continue;
    const plan::Plan& plan = part.planned->plan;
    print_out("{}", plan::print(*part.planned->shared.bind(plan, plan.shapes, plan.threads).schedule));
  }
}

/// What runs in each profile, at its best sizes; on a device that is not here it is not known.
void print_steps(const Engine& engine, int threads) {
  const EngineAccess::Impl& impl = EngineAccess::of(engine);
  const plan::Plan& plan = impl.plan;
  const auto print_one = [&](const std::string& title, const Shapes& shapes) {
    const plan::Bound bound = impl.shared.bind(plan, shapes, threads > 0 ? threads : plan.threads);
    print_out("profile  {}\n", title);
    if (bound.schedule)
      print_out("runs     on {}, {}\n{}", plan.device.str(),
                bound.schedule->concurrent ? "branches at the same time" : "one step after the other",
                plan::print(*bound.schedule));
    if (bound.parts) print_rest(*bound.parts);
  };
  if (plan.profiles.empty()) print_one("any sizes", plan.shapes);
  for (const Profile& profile : plan.profiles) print_one(range_text(profile), profile.opt);
}

/// An engine: what it was built for, the kernels it chose, and the memory a session takes.
int plan_of(const Options& options) {
  const Engine engine = options.open();
  const plan::Plan& plan = plan_of(engine);
  Json json = summary(plan.graph);
  json["threads"] = plan.threads;
  json["isa"] = plan.goal.isa;
  json["precision"] = name(plan.goal.precision);
  json["device"] = plan.device.str();
  json["strict"] = plan.goal.strict;
  json["shapes"] = plan.shapes;
  json["profiles"] = Json::array();
  for (const Profile& profile : plan.profiles)
    json["profiles"].push_back(
        {{"name", profile.name}, {"min", profile.min}, {"opt", profile.opt}, {"max", profile.max}});
  json["state"] = Json::array();
  for (const auto& [output, input] : plan.carried) json["state"].push_back({{"output", output}, {"input", input}});
  const MemoryUse memory = engine.session(options.threads).memory();
  json["memory"] = {{"arena_bytes", memory.arena_bytes},
                    {"arena_lower_bound", memory.arena_lower_bound},
                    {"weights_bytes", memory.weights_bytes}};
  if (memory.device_bytes > 0) json["memory"].update(device_memory(memory));
  json["tactics"] = Json::array();
  for (const auto& [problem, record] : plan.records)
    json["tactics"].push_back({{"problem", problem}, {"kernel", record.kernel}, {"us", record.microseconds}});
  if (!options.json.empty()) write_json(options.json, json);
  if (options.json == "-") return 0;
  if (options.stage == "plan") write_out(ir::print(plan.graph));
  print(json);
  print_out("{:<8} {}, kernels for {}, {}{}\n", "built", counted(plan.threads, "thread"), plan.goal.isa,
            name(plan.goal.precision), memory.device_bytes > 0 ? " on " + plan.device.str() : "");
  for (const auto& [input, sizes] : plan.shapes)
    if (plan.profiles.empty()) print_out("{:<8} {} {}\n", "tuned", printable(input), shape_text(sizes));
  for (const Profile& profile : plan.profiles)
    if (options.stage.empty()) print_out("{:<8} {}\n", "profile", range_text(profile));
  for (const auto& [output, input] : plan.carried)
    print_out("{:<8} {} to {}\n", "state", printable(output), printable(input));
  print_out("{:<8} arena {}, weights {}{}\n", "memory", bytes_text(memory.arena_bytes),
            bytes_text(memory.weights_bytes), memory.device_bytes > 0 ? ", " + device_memory_text(memory) : "");
  if (options.stage == "plan") print_steps(engine, options.threads);
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
  Json json = summary(options.stage.empty() ? typed(graph) : graph);
  if (options.path() == options.model) json["file_bytes"] = std::filesystem::file_size(options.path());
  if (!options.json.empty()) write_json(options.json, json);
  if (options.json == "-") return 0;
  if (options.stage.empty()) print(json);
  else write_out(ir::print(graph));
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

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "backends/backend.h"
#include "base/entries.h"
#include "cli/arrays.h"
#include "cli/compare.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/verb.h"
#include "onnx/import.h"
#include "ops/op.h"

namespace fs = std::filesystem;

namespace tenon::cli::verify_verb {
namespace {

struct Options {
  std::vector<std::string> folders, skip_passes;
  std::string backend = "cpu", json;
  double rtol = 1e-3, atol = 1e-7;
  int threads = 0;
  bool strict_ops = false, quiet = false;
};

/// A model with its data sets; none: NAME_output_0.pb beside the model, for an input of 0/n, 1/n, … as the ONNX suite's
/// light models have.
struct Case {
  std::string name;
  fs::path model;
  std::vector<fs::path> sets;
};

struct Outcome {
  std::string name, status, why;
};

/// Cases in a folder and the folders below it.
void collect(const fs::path& folder, int depth, std::vector<Case>& cases) {
  constexpr int deepest = 8;
  if (depth > deepest) return;
  Case own{folder.filename().empty() ? folder.parent_path().filename().string() : folder.filename().string(), {}, {}};
  std::vector<fs::path> models;
  for (const fs::path path : entries_of(folder)) {
    if (path.extension() == ".onnx" && is_regular_file(path)) models.push_back(path);
    else if (path.filename().string().rfind("test_data_set_", 0) == 0) own.sets.push_back(path);
    else if (is_folder(path)) collect(path, depth + 1, cases);
  }
  if (!own.sets.empty()) {
    const auto model = std::find_if(models.begin(), models.end(),
                                    [](const fs::path& path) { return path.filename() == "model.onnx"; });
    if (model == models.end() && models.size() != 1) return;
    own.model = model == models.end() ? models[0] : *model;
    cases.push_back(std::move(own));
    return;
  }
  for (const fs::path& model : models)
    if (is_there(folder / (model.stem().string() + "_output_0.pb")))
      cases.push_back({model.stem().string(), model, {}});
}

std::vector<fs::path> numbered(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> paths;
  for (;; paths.push_back(folder / fmt::format("{}{}.pb", prefix, paths.size())))
    if (!is_there(folder / fmt::format("{}{}.pb", prefix, paths.size()))) return paths;
}

Tensor ramp(const TensorInfo& info) {
  Dims dims;
  for (const int64_t size : info.shape) dims.push_back(size < 0 ? 1 : size);
  if (info.dtype != DType::f32)
    throw Error(Code::unsupported, "there is no input data, and the input is not f32", {.where = info.name});
  Tensor tensor(DType::f32, dims);
  const auto count = static_cast<double>(dims.elements());
  for (int64_t at = 0; at < dims.elements(); ++at)
    tensor.data<float>()[at] = static_cast<float>(static_cast<double>(at) / count);
  return tensor;
}

std::vector<Tensor> evaluate(const Case& one, const std::vector<TensorInfo>& infos, std::vector<Tensor> inputs,
                             const Options& options) {
  if (options.backend == "ref") {
    ir::Graph graph = onnx::import_file(one.model.string());
    graph.tidy();
    return ops::interpret(graph, std::move(inputs));
  }
  BuildOptions how;
  how.device = options.backend;
  how.threads = options.threads;
  how.budget_seconds = 0;
  how.timing_cache = "-";
  how.skip_passes = options.skip_passes;
  std::map<std::string, Tensor> named;
  for (size_t at = 0; at < inputs.size(); ++at) {
    named[infos[at].name] = inputs[at];
    if (inputs[at] && inputs[at].dtype() != DType::sequence)
      how.shapes[infos[at].name] = {inputs[at].dims().begin(), inputs[at].dims().end()};
  }
  return build(one.model.string(), how).session(options.threads).run(named);
}

std::string run_set(const Case& one, const std::vector<TensorInfo>& infos, const fs::path* set,
                    const Options& options) {
  std::vector<Tensor> inputs;
  if (set) {
    const std::vector<fs::path> files = numbered(*set, "input_");
    if (files.size() > infos.size())
      return fmt::format("{} given, the model takes {}", counted(files.size(), "input"), infos.size());
    for (size_t at = 0; at < files.size(); ++at) inputs.push_back(read_array(files[at].string(), infos[at].dtype));
  } else {
    for (const TensorInfo& info : infos) inputs.push_back(ramp(info));
  }
  const std::vector<fs::path> wanted =
      set ? numbered(*set, "output_") : numbered(one.model.parent_path(), one.model.stem().string() + "_output_");
  const std::vector<Tensor> outputs = evaluate(one, infos, std::move(inputs), options);
  if (outputs.size() != wanted.size())
    return fmt::format("{}, expected {}", counted(outputs.size(), "output"), wanted.size());
  for (size_t at = 0; at < outputs.size(); ++at) {
    const std::string why =
        difference(outputs[at], read_array(wanted[at].string(), outputs[at].dtype()), options.rtol, options.atol);
    if (!why.empty()) return fmt::format("{}output {}: {}", set ? set->filename().string() + ", " : "", at, why);
  }
  return "";
}

Outcome run_case(const Case& one, const Options& options) {
  try {
    const std::vector<TensorInfo> infos = stated_inputs(one.model.string());
    std::vector<std::string> faults;
    if (one.sets.empty()) faults.push_back(run_set(one, infos, nullptr, options));
    for (const fs::path& set : one.sets) faults.push_back(run_set(one, infos, &set, options));
    for (const std::string& fault : faults)
      if (!fault.empty()) return {one.name, "failed", fault};
    return {one.name, "passed", ""};
  } catch (const Error& error) {
    const bool skipped = error.code() == Code::unsupported && !options.strict_ops;
    std::string why = error.what();
    for (const std::string& part : {error.where(), error.why()})
      if (!part.empty()) why += "; " + part;
    return {one.name, skipped ? "skipped" : "failed", why};
  } catch (const std::bad_alloc&) {
    return {one.name, "failed", "not enough memory"};
  } catch (const std::exception& fault) {
    return {one.name, "failed", std::string("a fault in Tenon: ") + fault.what()};
  }
}

/// Throws Error(usage) for a name that is of none, Error(unsupported) where it cannot be used here.
void require_backend(const std::string& name) {
  bool known = false;
  for (const backends::Backend* backend : backends::backends())
    known |= name.substr(0, name.find(':')) == backend->name();
  if (!known)
    throw Error(Code::usage, "no backend is called \"" + name + "\"",
                {.where = "--backend", .hint = "give cpu, cuda, cuda:N or ref"});
  backends::backend(Device(name)).require(Device(name));
}

int work(const Options& options) {
  if (options.backend != "ref") require_backend(options.backend);
  std::vector<Case> cases;
  for (const std::string& folder : options.folders) collect(folder, 0, cases);
  if (cases.empty())
    throw Error(Code::usage, "the folder has no cases",
                {.where = options.folders[0], .hint = "a case is a folder with model.onnx and test_data_set_0"});
  std::map<std::string, int> totals{{"passed", 0}, {"failed", 0}, {"skipped", 0}};
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Case& one : cases) {
    if (interrupted() != 0) break;
    const Outcome outcome = run_case(one, options);
    ++totals[outcome.status];
    list.push_back({{"name", outcome.name}, {"status", outcome.status}, {"why", outcome.why}});
    if (options.json != "-" && !(options.quiet && outcome.status == "passed"))
      print_out("{:<7} {}{}{}\n", outcome.status, outcome.name, outcome.why.empty() ? "" : ": ",
                printable(outcome.why));
  }
  if (options.json != "-")
    print_out("{} passed, {} failed, {} skipped\n", totals["passed"], totals["failed"], totals["skipped"]);
  if (!options.json.empty())
    write_json(
        options.json,
        {{"passed", totals["passed"]}, {"failed", totals["failed"]}, {"skipped", totals["skipped"]}, {"cases", list}});
  if (interrupted() != 0) return interrupted();
  return totals["failed"] == 0 ? 0 : static_cast<int>(Code::gate_failed);
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto options = std::make_shared<Options>();
  flags.add("DIR", options->folders, "Folders of cases: model.onnx with test_data_set_*/input_0.pb, output_0.pb")
      .required()
      .reads_folder();
  flags
      .add("--backend,--device", options->backend,
           "cpu, cuda, cuda:N: the optimised path; ref: plain kernels without any pass")
      .value("NAME")
      .one_of({"cpu", "cuda", "ref"})
      .with_default();
  flags.add("--rtol", options->rtol, "Relative tolerance").with_default();
  flags.add("--atol", options->atol, "Absolute tolerance").with_default();
  flags.add("--threads", options->threads, "Threads; 0 is the cores this process may use").value("N");
  flags.add("--skip-pass", options->skip_passes, "Leave out an optimisation pass (may be given again)")
      .value("NAME")
      .one_each();
  flags.add("--strict-ops", options->strict_ops, "Unsupported operations fail instead of being skipped");
  flags.add("-q,--quiet", options->quiet, "Do not print passed cases");
  add_json(app, options->json);
  flags.footer(
      "A case passes when |got - expected| <= atol + rtol |expected| for every element; integers within "
      "--atol. Exit status 6 when a case fails.\n"
      "Examples:\n"
      "  tenon verify onnx/backend/test/data/node -q\n"
      "  tenon verify my_model_case --backend ref --json -");
  return [options] { return work(*options); };
}

const Registrar registrar({8, "verify", "Check models against recorded inputs and outputs", add});

}  // namespace
}  // namespace tenon::cli::verify_verb

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/entries.h"
#include "cli/arrays.h"
#include "cli/flags.h"
#include "cli/inputs.h"
#include "cli/npy.h"
#include "cli/notes.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "cli/row_batches.h"
#include "cli/verb.h"
#include "engine/engine.h"
#include "explain/watch.h"

namespace tenon::cli::run_verb {
namespace {

struct Options : ModelOptions {
  std::vector<std::string> inputs;
  std::string output_dir, json;
  int batch_size = 0;
  bool watch_ranges = false;
};

/// What left the ranges of the calibration.
nlohmann::ordered_json watched(const Options& options, const Engine& engine, const Shapes& shapes,
                               const std::map<std::string, Tensor>& inputs, int threads) {
  std::vector<Tensor> ordered;
  for (const TensorInfo& info : engine.inputs()) ordered.push_back(inputs.at(info.name));
  std::vector<explain::Watched> tensors = explain::watch_ranges(plan_of(engine), shapes, ordered, threads);
  if (tensors.empty())
    throw Error(Code::usage, "the engine stores nothing as INT8",
                {.where = "--watch-ranges", .hint = "build it with --precision int8 --data"});
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  size_t left = 0;
  for (const explain::Watched& tensor : tensors) {
    left += tensor.has_left();
    list.push_back({{"name", tensor.name},
                    {"outside", tensor.share()},
                    {"usual", tensor.usual},
                    {"least", tensor.least},
                    {"greatest", tensor.greatest},
                    {"low", tensor.low},
                    {"high", tensor.high},
                    {"left", tensor.has_left()}});
    if (tensor.has_left() && options.json != "-")
      warn(fmt::format("{} has left its range: {:.2f} % of its values lie outside {:.4g} to {:.4g}", tensor.name,
                       100 * tensor.share(), tensor.low, tensor.high));
  }
  if (options.json != "-")
    print_out("ranges: {} of {} have left those of the calibration\n", left,
              counted(static_cast<int64_t>(tensors.size()), "tensor"));
  return list;
}

/// Where each output goes; the folder is made.
std::vector<std::string> output_files(const Options& options, const std::vector<TensorInfo>& infos) {
  std::vector<std::string> files;
  if (options.output_dir.empty()) return files;
  make_folder(options.output_dir);
  for (const TensorInfo& info : infos) {
    files.push_back((std::filesystem::path(options.output_dir) / file_name_of(info.name)).string());
    paths().write("--output-dir", files.back());
  }
  return files;
}

int work(const Options& options) {
  if (options.watch_ranges && options.batch_size > 0)
    throw Error(Code::usage, "ranges are watched in one run, not in batches", {.where = "--watch-ranges"});
  const std::vector<TensorInfo> stated = options.stated_inputs();
  const auto inputs = read_inputs(options.inputs, stated);
  want_all(inputs, stated);
  std::optional<RowBatches> batches;
  if (options.batch_size > 0) batches.emplace(inputs, options.batch_size);
  Shapes shapes = batches ? batches->shapes() : Shapes();
  for (const auto& [input, tensor] : inputs)
    if (tensor.dtype() != DType::sequence) shapes.try_emplace(input, tensor.dims().begin(), tensor.dims().end());
  const Engine engine = options.open(shapes);
  const std::vector<TensorInfo> infos = engine.outputs();
  const std::vector<std::string> files = output_files(options, infos);
  Session session = engine.session(options.threads, shapes);
  const std::vector<Tensor> outputs = batches ? batches->run(session, infos) : session.run(inputs);

  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  for (size_t at = 0; at < outputs.size(); ++at) {
    nlohmann::ordered_json entry = {
        {"name", infos[at].name},
        {"dtype", name(outputs[at].dtype())},
        {"shape", std::vector<int64_t>(outputs[at].dims().begin(), outputs[at].dims().end())}};
    if (!options.output_dir.empty()) {
      write_npy(files[at], outputs[at]);
      entry["file"] = files[at];
    }
    if (options.json != "-")
      print_out("{} {} {}{}\n", printable(infos[at].name), name(outputs[at].dtype()), outputs[at].dims().str(),
                entry.contains("file") ? "  " + printable(entry["file"].get<std::string>()) : "");
    report.push_back(std::move(entry));
  }
  nlohmann::ordered_json json{{"outputs", report}};
  if (options.watch_ranges) json["ranges"] = watched(options, engine, shapes, inputs, session.threads());
  if (!options.json.empty()) write_json(options.json, json);
  return 0;
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto options = std::make_shared<Options>();
  options->add_to(app);
  add_inputs(flags, options->inputs,
             "An input: NAME=x.npy, NAME=x.npz:KEY or NAME=x.pb; NAME= may be left out where the model has one input");
  flags.add("-o,--output-dir", options->output_dir, "Folder for the outputs, each as NAME.npy").value("DIR").fills();
  flags
      .add("--batch-size", options->batch_size,
           "Rows of the inputs' first axis that run together; outputs are joined. Default: all")
      .value("N")
      .between(int64_t{1}, int64_t{1} << 30);
  flags.add("--watch-ranges", options->watch_ranges,
            "Say which tensors of an INT8 engine have left the ranges of its calibration");
  add_json(app, options->json);
  flags.footer(
      "Examples:\n"
      "  tenon run model.onnx --input x=x.npy --output-dir out\n"
      "  tenon run resnet50.tenon --input images.npy --batch-size 8 -o out\n"
      "  tenon run bert.tenon --input ids=batch.npz:ids --input mask=batch.npz:mask -o out --json -");
  return [options] { return work(*options); };
}

const Registrar registrar({2, "run", "Run a model on arrays", add});

}  // namespace
}  // namespace tenon::cli::run_verb

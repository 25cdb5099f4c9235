// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <map>

#include "base/cores.h"
#include "base/entries.h"
#include "cli/calibration.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "cli/verb.h"
#include "onnx/import.h"
#include "onnx/write.h"
#include "passes/pass.h"
#include "compile/calibrate.h"
#include "quant/export.h"
#include "quant/trt_cache.h"

namespace tenon::cli::quantize_verb {
namespace {

struct Options : ModelOptions {
  std::string output, json, table, style = "standard";
  DataOptions data;
};

quant::Style style_of(const std::string& name) {
  static const std::map<std::string, quant::Style> styles{{"standard", quant::Style::standard},
                                                          {"tensorrt", quant::Style::tensorrt},
                                                          {"openvino", quant::Style::openvino},
                                                          {"onnxruntime", quant::Style::onnxruntime}};
  const auto found = styles.find(name);
  if (found == styles.end())
    throw Error(Code::usage, "no style is called \"" + name + "\"",
                {.where = "--style", .hint = "give standard, tensorrt, openvino or onnxruntime"});
  return found->second;
}

/// To a file, or the standard output for "-"; the bytes of it.
int64_t write(const ir::Graph& graph, const std::string& path, const Files& files) {
  check(files);
  if (path == "-") return onnx::write(graph, stdout, "the standard output");
  onnx::write_file(graph, path, files);
  return size_of_file(path);
}

int work(Options& options) {
  const quant::Style style = style_of(options.style);
  if (options.output == "-" && isatty(STDOUT_FILENO) == 1)
    throw Error(Code::usage, "a model is binary data, which a terminal cannot show",
                {.where = "-o -", .hint = "send the standard output to a file or a program"});
  options.precision = "int8";
  BuildOptions how = options.build_options();
  options.data.apply(options, how);
  const auto start = std::chrono::steady_clock::now();
  Files files;
  onnx::ImportOptions reading = options.import_options();
  reading.files = &files;
  const ir::Graph imported = onnx::import_file(options.path(), reading);
  if (quant::is_quantised(imported))
    throw Error(Code::usage, "the model is quantised already",
                {.where = options.path(), .hint = "give the model in floating point that it was made from"});
  ir::Graph optimised = imported, plain = imported;
  passes::optimise(optimised, options.skip_passes);
  passes::optimise(plain, quant::passes_of_ours());
  const int threads = how.threads > 0 ? how.threads : usable_cores();
  const std::map<std::string, std::string> names = quant::same_tensors(optimised, imported);
  const compile::Setting setting{how.calibration, how.shapes, threads, {}, how.progress, how.logger, false, names};
  const quant::Recipe recipe = compile::calibrate(optimised, *how.calibrator, setting);
  quant::export_recipe(optimised, recipe, style, plain);
  for (const auto& [key, text] : how.metadata) plain.metadata[key] = text;
  const int64_t bytes = write(plain, options.output, files);
  if (!options.table.empty()) {
    const std::string table = quant::tensorrt_table(quant::tensorrt_scales(recipe, names));
    write_bytes(options.table, std::as_bytes(std::span(table)));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!options.json.empty()) {
    nlohmann::ordered_json kept = nlohmann::ordered_json::object();
    for (const auto& [name, reason] : recipe.kept) kept[name] = reason;
    write_json(options.json, {{"model", options.output},
                              {"seconds", seconds},
                              {"bytes", bytes},
                              {"tensors", recipe.values.size()},
                              {"layers", recipe.anchors.size()},
                              {"error", recipe.error},
                              {"kept", kept}});
  }
  if (options.json != "-" && options.output != "-" && options.table != "-")
    print_out("{}  {}, {} and {} as INT8, {} kept in floating point, error {:.2g}, {:.1f} s\n",
              printable(options.output), bytes_text(bytes),
              counted(static_cast<int64_t>(recipe.anchors.size()), "layer"),
              counted(static_cast<int64_t>(recipe.values.size()), "tensor"), recipe.kept.size(), recipe.error, seconds);
  return 0;
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto options = std::make_shared<Options>();
  options->add_to(app, ModelOptions::Uses::model);
  flags.add("-o,--output", options->output, "The ONNX model to write; - is the standard output")
      .required()
      .value("FILE")
      .writes(FileKind::model);
  options->data.add_to(app);
  flags
      .add("--style", options->style,
           "Whose rules to follow: standard, tensorrt (signed, symmetric), openvino, onnxruntime (i32 biases)")
      .value("NAME")
      .one_of({"standard", "tensorrt", "openvino", "onnxruntime"})
      .with_default();
  flags.add("--tensorrt-table", options->table, "Write the scales as a TensorRT calibration table, too")
      .value("FILE")
      .writes(FileKind::calibration_table);
  add_json(app, options->json);
  flags.footer(
      "The model has QuantizeLinear and DequantizeLinear nodes, opset 21.\n"
      "Example:\n"
      "  tenon quantize yolov8n.onnx -o yolov8n.int8.onnx --data images/ --preprocess yolo");
  return [options] { return work(*options); };
}

const Registrar registrar({10, "quantize", "Write a calibrated INT8 model as ONNX with Q/DQ nodes", add});

}  // namespace
}  // namespace tenon::cli::quantize_verb

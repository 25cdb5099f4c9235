// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/calibration.h"
#include "cli/flags.h"
#include "cli/judge.h"
#include "cli/notes.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/verb.h"
#include "engine/engine.h"
#include "engine/save.h"
#include "explain/report.h"

namespace tenon::cli::build_verb {
namespace {

struct Options : ModelOptions {
  std::string output, json;
  std::string weights;
  int64_t weight_block = 32;
  bool retune = false;
  int64_t max_batch = 0;  // 0: not given
  DataOptions data;
  JudgeOptions judge;
};

void check_kind(const std::string& model, bool retune) {
  const bool engine = is_engine_file(model);
  if (engine && !retune)
    throw Error(Code::usage, "the file is an engine already",
                {.where = model, .hint = "give the model that it was built from, or --retune"});
  if (!engine && retune)
    throw Error(Code::usage, "the file is not an engine", {.where = model, .hint = "leave out --retune to build it"});
}

/// Gives its bytes, which have been read back.
int64_t save_or_send(const Engine& engine, const std::string& path) {
  if (path != "-") return save(engine, path);
  const Buffer bytes = engine.serialize();
  Engine::load(bytes);
  write_bytes(path, bytes.bytes());
  return static_cast<int64_t>(bytes.size());
}

/// On the engine's own device where none is given.
Engine retune_file(const Options& options, BuildOptions& how) {
  const Engine engine = Engine::load(options.path());
  if (options.device.empty()) how.device = engine.device();
  return retune(engine, how);
}

/// Says so where --max-batch-size has nothing to set.
void tell_fixed_batch(const Options& options, const TensorInfo& info, const BuildOptions& how) {
  const std::string given = fmt::format("--max-batch-size {} is ignored: ", options.max_batch);
  if (how.shapes.count(info.name)) return warn(given + "--shapes gives the sizes of input \"" + info.name + "\"");
  if (info.shape.empty()) return warn(given + "input \"" + info.name + "\" has no batch");
  if (info.shape[0] == options.max_batch) return;
  warn(given + fmt::format("the batch of input \"{}\" is fixed at {}; export the model with a dynamic batch (tenon "
                           "export --dynamic-batch, or dynamic_axes of torch.onnx.export)",
                           info.name, info.shape[0]));
}

/// Tuned for that batch: inputs whose batch is free, and nothing else.
void set_batch(const Options& options, BuildOptions& how) {
  if (options.max_batch == 0) return;
  const std::vector<TensorInfo> infos = options.stated_inputs();
  const bool none = std::none_of(infos.begin(), infos.end(), [&](const TensorInfo& info) {
    return !info.shape.empty() && info.shape[0] < 0 && !how.shapes.count(info.name);
  });
  if (none && !infos.empty() && options.least_severity() >= Severity::warning) tell_fixed_batch(options, infos[0], how);
  for (const TensorInfo& info : infos) {
    if (info.shape.empty() || info.shape[0] >= 0 || how.shapes.count(info.name)) continue;
    std::vector<int64_t>& sizes = how.shapes[info.name] = info.shape;
    sizes[0] = options.max_batch;
    if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; }))
      throw Error(Code::usage, "the input has other free sizes than its batch",
                  {.where = info.name, .hint = "give --shapes " + info.name + ":SIZES"});
  }
}

void set_weights(const Options& options, BuildOptions& how) {
  if (options.weights.empty()) return;
  if (options.retune)
    throw Error(Code::usage, "the weights of an engine stay as they are",
                {.where = "--weights", .hint = "build the model that it is of"});
  if (options.weights != "int8" && options.weights != "int4")
    throw Error(Code::usage, "invalid value \"" + options.weights + "\"",
                {.where = "--weights", .hint = "give int8 or int4"});
  how.weights = options.weights == "int8" ? Weights::int8 : Weights::int4;
  how.weight_block = static_cast<int>(options.weight_block);
}

int work(const Options& options) {
  check_kind(options.path(), options.retune);
  if (options.output == "-" && isatty(STDOUT_FILENO) == 1)
    throw Error(Code::usage, "an engine is binary data, which a terminal cannot show",
                {.where = "-o -", .hint = "send the standard output to a file or a program"});
  const auto start = std::chrono::steady_clock::now();
  BuildOptions how = options.build_options();
  set_batch(options, how);
  set_weights(options, how);
  const auto kind = std::make_shared<BuildKind>(BuildKind::plain);
  how.progress = build_progress(options.quiet, kind);
  options.data.apply(options, how);
  options.judge.apply(options, options.data, how);
  if (how.calibrator) *kind = how.judge ? BuildKind::judged : BuildKind::calibrated;
  const Engine engine = options.retune ? retune_file(options, how) : build(options.path(), how);
  const int64_t size = save_or_send(engine, options.output);
  const plan::Search& search = plan_of(engine).evidence.search;
  if (!options.judge.pareto.empty()) write_json(options.judge.pareto, plan::json_of(search));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!options.json.empty()) {
    nlohmann::ordered_json report{{"engine", options.output},
                                  {"seconds", seconds},
                                  {"bytes", size},
                                  {"precision", name(engine.precision())},
                                  {"device", engine.device().str()}};
    if (const plan::Evidence& evidence = plan_of(engine).evidence; !evidence.empty())
      report["audit"] = explain::audit_json(evidence);
    if (!search.points.empty()) report["search"] = plan::json_of(search);
    write_json(options.json, report);
  }
  const bool taken = options.output == "-" || options.json == "-" || options.judge.pareto == "-";
  if (!taken && !search.points.empty()) write_out(explain::search_text(search));
  if (!taken) print_out("{}  {}, built in {:.1f} s\n", printable(options.output), bytes_text(size), seconds);
  return 0;
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto options = std::make_shared<Options>();
  options->add_to(app);
  flags.add("-o,--output", options->output, "The engine to write; - is the standard output")
      .required()
      .value("FILE")
      .writes(FileKind::engine);
  flags.add("--retune", options->retune, "MODEL is an engine: tune it again, for --device");
  flags
      .add("--max-batch-size", options->max_batch,
           "The batch to tune for, where the model's batch is dynamic; other batches run, too")
      .value("N")
      .between(int64_t{1}, int64_t{65536});
  flags
      .add("--weights", options->weights,
           "int8 or int4: weights of large products as integers in blocks, data in floating point. With --data "
           "those of 4 bits make up for each other's errors on it, and the table says what is lost")
      .value("NAME")
      .one_of({"int8", "int4"});
  flags.add("--weight-block", options->weight_block, "Weights of one output that share a scale, for --weights")
      .value("N")
      .between(int64_t{16}, int64_t{256})
      .with_default();
  options->data.add_to(app);
  options->judge.add_to(app);
  add_json(app, options->json);
  flags.footer(
      "Examples:\n"
      "  tenon build yolov8n.onnx -o yolov8n.tenon\n"
      "  tenon build gpt2.onnx -o gpt2.tenon --weights int4 --data prompts/\n"
      "  tenon build bert.onnx -o bert.tenon --shapes ids:1x128,mask:1x128 --budget 10s\n"
      "  tenon build yolov8n.tenon -o on_gpu.tenon --retune --device cuda --precision fp16\n"
      "  tenon build yolov8n.onnx -o yolov8n.tenon --precision int8 --data images/ --preprocess yolo\n"
      "  tenon build yolov8n.onnx -o yolov8n.tenon --precision best --data images/ --preprocess yolo "
      "--eval coco.json --max-drop 0.2");
  return [options] { return work(*options); };
}

const Registrar registrar({1, "build", "Turn an ONNX model into an engine file", add});

}  // namespace
}  // namespace tenon::cli::build_verb

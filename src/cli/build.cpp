#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>

#include "cli/calibration.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/verb.h"
#include "engine/engine.h"

namespace fs = std::filesystem;

namespace tenon::cli {
namespace {

struct Options : ModelOptions {
  std::string output, json;
  DataOptions data;
};

/// A wrong name is known before the model is built.
void check_names(const std::string& model, const std::string& output) {
  std::error_code fault;
  const fs::path folder = fs::path(output).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, fault))
    throw Error(Code::io, "there is no such folder", {.where = folder.string()});
  if (fs::is_directory(output, fault))
    throw Error(Code::io, "the path is a folder", {.where = output, .hint = "name a file in it"});
  if (fs::equivalent(model, output, fault))
    throw Error(Code::usage, "the engine would replace the model", {.where = output, .hint = "give another name"});
  if (is_engine_file(model))
    throw Error(Code::usage, "the file is an engine already",
                {.where = model, .hint = "give the model that it was built from"});
}

int work(const Options& options) {
  check_names(options.path(), options.output);
  const auto start = std::chrono::steady_clock::now();
  BuildOptions how = options.build_options();
  options.data.apply(options, how);
  const Engine engine = build(options.path(), how);
  engine.save(options.output);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto size = static_cast<int64_t>(std::filesystem::file_size(options.output));
  if (!options.json.empty())
    write_json(options.json, {{"engine", options.output},
                              {"seconds", seconds},
                              {"bytes", size},
                              {"precision", engine.impl().plan.precision},
                              {"device", engine.device()}});
  if (options.json != "-")
    fmt::print("{}  {}, built in {:.1f} s\n", printable(options.output), bytes_text(size), seconds);
  return 0;
}

std::function<int()> add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->add_to(app);
  app.add_option("-o,--output", options->output, "The engine to write")->required()->type_name("FILE");
  options->data.add_to(app);
  add_json(app, options->json);
  app.footer(
      "Examples:\n"
      "  tenon build yolov8n.onnx -o yolov8n.tenon\n"
      "  tenon build bert.onnx -o bert.tenon --shapes ids:1x128,mask:1x128 --budget 10s\n"
      "  tenon build yolov8n.onnx -o yolov8n.tenon --precision int8 --data pictures/ --preprocess yolo");
  return [options] { return work(*options); };
}

const Registrar registrar({1, "build", "Turn an ONNX model into an engine file", add});

}  // namespace
}  // namespace tenon::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <charconv>
#include <filesystem>

#include "backends/backend.h"
#include "base/cores.h"
#include "base/entries.h"
#include "base/memory.h"
#include "cli/flags.h"
#include "cli/notes.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "engine/engine.h"
#include "onnx/import.h"

namespace tenon::cli {

namespace {
constexpr int64_t stdin_limit = int64_t{16} << 30;

/// Copies the standard input to a temporary file that goes with the last reference to its name.
std::shared_ptr<const std::string> spool_stdin() {
  // In a folder of its own, so that no other file can pass for its external data.
  std::string folder = (std::filesystem::temp_directory_path() / "tenon-stdin-XXXXXX").string();
  const bool made = mkdtemp(folder.data()) != nullptr;
  const std::string path = folder + "/model";
  const int file = made ? ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
  if (file < 0)
    throw Error(Code::io, "cannot make a temporary file for the model on the standard input", {.where = path});
  std::shared_ptr<const std::string> name(new std::string(path), [](const std::string* spooled) {
    std::error_code fault;
    std::filesystem::remove_all(std::filesystem::path(*spooled).parent_path(), fault);
    delete spooled;
  });
  std::vector<char> buffer(1 << 20);
  int64_t total = 0;
  bool whole = true;
  for (ssize_t count; whole && (count = read(STDIN_FILENO, buffer.data(), buffer.size())) != 0;) {
    total += count;
    whole = count > 0 && total <= stdin_limit && write(file, buffer.data(), static_cast<size_t>(count)) == count;
  }
  close(file);
  if (!whole) throw Error(Code::io, "cannot keep the model from the standard input", {.where = path});
  if (total == 0)
    throw Error(Code::usage, "the standard input is empty", {.hint = "MODEL \"-\" reads a model from it"});
  return name;
}

int64_t number(std::string_view text, const std::string& where) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || text.empty() || value < 0)
    throw Error(Code::usage, fmt::format("invalid value \"{}\"", text),
                {.where = where, .hint = "sizes look like 1x3x640x640"});
  return value;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t end; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1))
    parts.push_back(text.substr(0, end));
  parts.push_back(text);
  return parts;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// As the backends are called. Throws Error(usage) for names that are none, with the one that was probably meant.
std::string known_device(const std::string& word) {
  const std::string device = lower(word), number = device.substr(device.find(':') + 1);
  const bool gpu = (device + ":").starts_with("gpu:"), digits = is_number(number);
  if (gpu || is_number(device))
    throw Error(Code::usage, "no device is called \"" + word + "\"",
                {.where = "--device", .hint = "give cuda:" + (digits ? number : "0") + " for that GPU, or cpu"});
  backends::backend(Device(device));
  return device;
}

Precision parse_precision(const std::string& word) {
  const std::string known = lower(word);
  if (const auto precision = precision_named(known == "half" ? "fp16" : known)) return *precision;
  throw Error(Code::usage, "no precision is called \"" + word + "\"",
              {.where = "--precision", .hint = "give fp32, bf16, int8 or best; on a GPU also tf32, fp16 or fp8"});
}

/// The limits in force, without a default in the place of what was not given.
Limits given_limits() {
  Limits limits = tenon::limits();
  limits.memory_bytes = given_memory_limit();
  return limits;
}

void load_named_plugin(const std::string& path) {
  // Loading a pipe would wait for a writer.
  if (path.empty() || (is_there(path) && !is_regular_file(path)))
    throw Error(Code::usage, "--plugin does not name a library",
                {.where = path.empty() ? "--plugin" : path, .why = path.empty() ? "it is empty" : "it is not a file"});
  load_plugin(path);
}

void limit_memory(const std::string& text) {
  Limits limits = given_limits();
  limits.memory_bytes = parse_bytes(text, "--max-memory");
  set_limits(limits);
}

void limit_workspace(const std::string& text) {
  Limits limits = given_limits();
  limits.workspace_bytes = parse_bytes(text, "--workspace");
  set_limits(limits);
}

void limit_rounds(int64_t rounds) {
  Limits limits = given_limits();
  limits.loop_rounds = rounds;
  set_limits(limits);
}
}  // namespace

void ModelOptions::add_to(CLI::App& app, Uses uses) {
  Flags flags(app);
  flags.add("MODEL", model, "An ONNX model or a built engine; - is an ONNX model on the standard input")
      .reads()
      .required();
  flags.group("Model");
  if (uses == Uses::build) {
    flags.add("--device", device, "Where to run: cpu, cuda, cuda:N. Default: cpu, or an engine's own")
        .value("NAME")
        .one_of({"cpu", "cuda"});
    flags.add("--precision", precision, "Arithmetic: fp32, bf16, int8, best; on a GPU also tf32, fp16, fp8")
        .value("NAME")
        .one_of({"fp32", "bf16", "int8", "best", "tf32", "fp16", "fp8"});
  }
  flags.add("--shapes", shapes, "Sizes of dynamic inputs: in:1x3x640x640,other:1x8").value("SIZES");
  flags
      .add("--profile", profiles,
           "A range of sizes, least..best..most, tuned for the best: in:1x3x64x64..1x3x320x320..8x3x640x640. Sizes "
           "outside "
           "all ranges are refused (may be given again)")
      .value("[NAME=]SIZES")
      .one_each();
  flags.add("--state", state, "An output that the next run takes as an input (may be given again)")
      .value("OUT=IN")
      .one_each();
  flags.add("--threads", threads, "Number of threads; 0, the default: one for each core that this process may use")
      .value("N");
  flags
      .add("--external-root", external_root,
           "A folder that external weights may lie in, in addition to the model's own")
      .value("DIR")
      .reads_folder();
  flags
      .call("--plugin", load_named_plugin, "A library with custom ops of the model; its code runs (may be given again)")
      .value("FILE")
      .one_each()
      .reads("the plugin");
  flags.add("--lenient", lenient,
            "Ignore attributes that the ONNX standard does not define for an operator, with a warning");
  flags.add("--skip-pass", skip_passes, "Leave out an optimisation pass (may be given again)").value("NAME");
  if (uses == Uses::build) add_tuning(app);
  add_limits(app, uses);
  flags.group("Messages");
  flags.add("-q,--quiet", quiet, "No progress on stderr");
  flags.add("-v,--verbose", verbose, "Every message: the same as --log-level verbose");
  flags.add("--log-level", log_level, "The least severe messages to show: error, warning, info or verbose")
      .value("LEVEL")
      .one_of({"error", "warning", "info", "verbose"})
      .with_default();
}

void ModelOptions::add_tuning(CLI::App& app) {
  Flags flags(app, "Tuning");
  flags.add("--budget", budget, "Time for tuning: 500ms, 5s, 1m; 0 is none. Default: until everything is measured")
      .value("TIME");
  flags
      .add("--timing-cache", timing_cache,
           "File of measured kernel times; - is none. Default: in the user's cache folder")
      .value("FILE")
      .keeps(FileKind::timing_cache);
  flags.add(
      "--strict", strict,
      "Stricter arithmetic: no Winograd or Strassen, denormals are kept; on a GPU FP32 without tensor cores, INT8 "
      "with the CPU's bits, and no kernel in which an infinity reaches results beside its own");
  flags.add("--no-vendor", no_vendor, "On a GPU: own kernels only, without cuBLASLt and cuDNN");
}

void ModelOptions::add_limits(CLI::App& app, Uses uses) {
  Flags flags(app, "Limits");
  flags.call("--max-memory", limit_memory, "Memory that tensors may take: 512M, 4G. Default: 80 % of what is free")
      .value("SIZE");
  if (uses == Uses::build)
    flags.call("--workspace,--workspace-size", limit_workspace, "On a GPU: workspace memory that one kernel may take")
        .value("SIZE");
  flags.call("--max-rounds", limit_rounds, "Iterations after which a loop in the model is stopped. Default: 1000000")
      .value("N");
}

void add_json(CLI::App& app, std::string& json) {
  Flags flags(app, "Messages");
  flags.add("--json", json, "Write the report as JSON to a file; - is the standard output")
      .value("FILE")
      .writes(FileKind::json);
}

BuildOptions ModelOptions::build_options() const {
  if (threads < 0) throw Error(Code::usage, "a negative number of threads", {.where = "--threads"});
  if (const int cores = usable_cores(); threads > cores)
    warn(fmt::format("--threads {} on {}: threads wait for each other", threads, counted(cores, "core")));
  BuildOptions options;
  if (!device.empty()) options.device = known_device(device);
  if (!precision.empty()) options.precision = parse_precision(precision);
  options.shapes = parse_shapes(shapes);
  for (const std::string& text : profiles) options.profiles.push_back(parse_profile(text));
  for (const std::string& text : state) options.state.push_back(parse_carried(text));
  options.threads = threads;
  options.budget_seconds = budget.empty() ? -1 : parse_seconds(budget);
  options.timing_cache = timing_cache;
  options.skip_passes = skip_passes;
  options.external_root = external_root;
  options.lenient = lenient;
  options.strict = strict;
  options.vendor = !no_vendor;
  options.progress = progress_to_stderr(quiet);
  // Errors are told by main, which catches them.
  options.logger = Logger(
      [](Severity severity, std::string_view text) {
        if (severity == Severity::warning) warn(std::string(text));
        else if (severity > Severity::warning) note(std::string(text), name(severity));
      },
      least_severity());
  return options;
}

Severity ModelOptions::least_severity() const {
  if (verbose) return Severity::verbose;
  for (const Severity severity : {Severity::error, Severity::warning, Severity::info, Severity::verbose})
    if (log_level == name(severity)) return severity;
  throw Error(Code::usage, "invalid value \"" + log_level + "\"",
              {.where = "--log-level", .hint = "give error, warning, info or verbose"});
}

onnx::ImportOptions ModelOptions::import_options() const {
  const bool warns = least_severity() >= Severity::warning;
  return {.external_root = external_root, .lenient = lenient, .warn = [warns](const std::string& text) {
            if (warns) warn(text);
          }};
}

const std::string& ModelOptions::path() const {
  if (model != "-") return model;
  if (!spooled_) spooled_ = spool_stdin();
  return *spooled_;
}

Engine ModelOptions::open(const Shapes& more, const std::function<void(BuildOptions&)>& adjust) const {
  BuildOptions options = build_options();
  for (const auto& [name, sizes] : more) options.shapes[name] = sizes;
  if (adjust) adjust(options);
  const Engine engine = tenon::open(path(), options);
  return device.empty() || device == engine.device() ? engine : engine.on(device);
}

Shapes parse_shapes(const std::string& text) {
  Shapes shapes;
  if (text.empty()) return shapes;
  for (const std::string_view part : split(text, ',')) {
    const size_t colon = part.rfind(':');
    if (colon == std::string_view::npos || colon == 0)
      throw Error(Code::usage, fmt::format("\"{}\" does not name an input", part),
                  {.where = "--shapes", .hint = "write NAME:SIZES, as in images:1x3x640x640"});
    std::vector<int64_t>& sizes = shapes[std::string(part.substr(0, colon))];
    const std::string_view list = part.substr(colon + 1);
    sizes.clear();
    if (list == "scalar") continue;
    for (const std::string_view size : split(list, 'x')) sizes.push_back(number(size, "--shapes"));
  }
  return shapes;
}

double parse_seconds(const std::string& text) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, static_cast<const char*>(text.data() + text.size()));
  const double factor = unit.empty() || unit == "s"    ? 1
                        : unit == "ms"                 ? 1e-3
                        : unit == "m" || unit == "min" ? 60
                        : unit == "h"                  ? 3600
                                                       : 0;
  if (fault != std::errc() || factor == 0 || !(value >= 0 && value < 1e9))
    throw Error(Code::usage, "invalid value \"" + text + "\"", {.hint = "times look like 500ms, 5s or 1m"});
  return value * factor;
}

int64_t parse_bytes(const std::string& text, const std::string& option) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit = lower({end, static_cast<const char*>(text.data() + text.size())});
  constexpr std::string_view powers = "kmgt";
  const size_t letter = unit.empty() || unit == "b" ? 0 : powers.find(unit[0]) + 1;
  const bool known = unit.empty() || unit == "b" ||
                     (letter > 0 && (unit.size() == 1 || unit.substr(1) == "b" || unit.substr(1) == "ib"));
  if (fault != std::errc() || value < 1 || !known || value > (INT64_MAX >> (10 * letter)))
    throw Error(Code::usage, "invalid value \"" + text + "\"",
                {.where = option,
                 .why = fault == std::errc() && value > 0 && known ? "it is too large" : "",
                 .hint = "write a whole number of bytes, or of K, M, G or T (powers of 1024): 512M, 4g, 4GB, 4GiB"});
  return value << (10 * letter);
}

std::vector<int64_t> parse_counts(const std::string& text) {
  std::vector<int64_t> counts;
  for (const std::string_view part : split(text, ',')) {
    int64_t count = 0;
    const auto [end, fault] = std::from_chars(part.data(), part.data() + part.size(), count);
    if (fault != std::errc() || end != part.data() + part.size() || count < 1)
      throw Error(Code::usage, fmt::format("invalid value \"{}\"", part),
                  {.where = "--batch", .hint = "batches look like 1,4,8"});
    counts.push_back(count);
  }
  return counts;
}

std::vector<TensorInfo> ModelOptions::stated_inputs() const {
  onnx::ImportOptions how = import_options();
  how.warn = {};  // the build tells
  return cli::stated_inputs(path(), how);
}

std::vector<TensorInfo> stated_inputs(const std::string& path, const onnx::ImportOptions& options) {
  if (is_engine_file(path)) return Engine::load(path).inputs();
  const ir::Graph graph = onnx::import_file(path, options);
  std::vector<TensorInfo> infos;
  for (const ir::ValueId id : graph.inputs) {
    const ir::Value& value = graph.value(id);
    infos.push_back({value.name, value.dtype, {}});
    if (!value.shape) continue;
    for (const ir::Dim& dim : *value.shape) infos.back().shape.push_back(dim.is_constant() ? dim.value() : -1);
  }
  return infos;
}

}  // namespace tenon::cli

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "backends/backend.h"
#include "base/noise.h"
#include "cli/arrays.h"
#include "cli/calibration.h"
#include "cli/flags.h"
#include "cli/inputs.h"
#include "cli/notes.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/verb.h"
#include "engine/engine.h"
#include "explain/inspect.h"

namespace tenon::cli::bench_verb {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int most_sessions = 64, fewest_runs = 10, most_runs = 100000, profiled_runs = 10, device_runs = 100;
constexpr uint64_t first_seed = 1;

struct Options : ModelOptions {
  DataOptions data;
  int iterations = 0, warmup = 10;
  std::string seconds = "3", batches, json;
  std::vector<std::string> inputs;
  bool layers = false;
  int streaming = 0;
};

/// Sizes that --shapes and --input give, and of other inputs those that an engine was tuned for.
Shapes given_shapes(const Options& options, const std::map<std::string, Tensor>& arrays) {
  Shapes shapes = parse_shapes(options.shapes);
  for (const auto& [input, array] : arrays) shapes[input] = {array.dims().begin(), array.dims().end()};
  if (is_engine_file(options.path())) shapes.merge(Shapes(plan_of(Engine::load(options.path())).shapes));
  return shapes;
}

/// Sizes of every input: those given, the model's own, 1 for a free first axis; then the batch on the first axis.
Shapes shapes_for(const std::vector<TensorInfo>& infos, const Shapes& given, int64_t batch) {
  Shapes shapes;
  for (const TensorInfo& info : infos) {
    const auto found = given.find(info.name);
    std::vector<int64_t> sizes = found == given.end() ? info.shape : found->second;
    if (!sizes.empty() && batch > 0) {
      if (!info.shape.empty() && info.shape[0] >= 0 && info.shape[0] != batch)
        throw Error(Code::usage,
                    fmt::format("the batch of input \"{}\" is fixed at {}", printable(info.name), info.shape[0]),
                    {.where = fmt::format("--batch {}", batch), .hint = "export the model with a dynamic batch"});
      sizes[0] = batch;
    } else if (!sizes.empty() && sizes[0] < 0) {
      sizes[0] = 1;
    }
    if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; }))
      throw Error(
          Code::usage, fmt::format("input \"{}\" has free sizes: {}", printable(info.name), shape_text(sizes)),
          {.hint = fmt::format("give --shapes {}:{} with a size for each ?", printable(info.name), shape_text(sizes))});
    shapes[info.name] = sizes;
  }
  return shapes;
}

/// Random numbers, for an INT8 engine whose time alone matters.
class RandomData : public Calibrator {
 public:
  RandomData(std::vector<TensorInfo> infos, Shapes shapes) : infos_(std::move(infos)), shapes_(std::move(shapes)) {}
  bool next_batch(CalibrationBatch& batch) override {
    if (given_++ == batches) return false;
    for (const TensorInfo& info : infos_)
      batch.inputs[info.name] = random_array(info.dtype, Dims(shapes_.at(info.name)), first_seed + given_);
    return true;
  }

 private:
  static constexpr uint64_t batches = 2;
  std::vector<TensorInfo> infos_;
  Shapes shapes_;
  uint64_t given_ = 0;
};

/// Data for INT8 where a model is built for it: what --data gives, or noise.
void add_data(const Options& options, const std::vector<TensorInfo>& infos, const Shapes& shapes, BuildOptions& build) {
  if (!options.data.data.empty() || !options.data.cache.empty()) return options.data.apply(options, build);
  if (!is_quantised(build.precision) || is_engine_file(options.path())) return;
  if (!options.quiet) note("calibrated on random numbers, for timing only; give --data");
  build.calibrator = std::make_shared<RandomData>(infos, shapes);
  build.calibration.method = CalibrationMethod::min_max;
  build.calibration.target_error = std::numeric_limits<double>::infinity();
}

double percentile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - static_cast<double>(low));
}

/// The session's own memory for an input, with the values of `from`.
Tensor filled(Tensor own, const Tensor& from) {
  if (from.bytes() > 0) std::memcpy(own.data(), from.data(), from.bytes());
  return own;
}

/// Milliseconds of each run, in order.
std::vector<double> measure(Session& session, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs,
                            const Options& options) {
  for (int run = 0; run < options.warmup && interrupted() == 0; ++run)
    session.run(std::span<const Tensor>(inputs), outputs);
  const double limit = parse_seconds(options.seconds);
  std::vector<double> times;
  times.reserve(static_cast<size_t>(options.iterations > 0 ? options.iterations : most_runs));
  const auto start = Clock::now();
  while (interrupted() == 0 && times.size() < times.capacity()) {
    const auto before = Clock::now();
    if (options.iterations == 0 && times.size() >= fewest_runs &&
        std::chrono::duration<double>(before - start).count() >= limit)
      break;
    session.run(std::span<const Tensor>(inputs), outputs);
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - before).count());
  }
  return times;
}

/// Runs one after the other in `count` sessions at once, each in its thread: the copies of one run lie beside the work
/// of another. Items a second.
double stream(const Engine& engine, const Shapes& shapes, const std::vector<Tensor>& inputs, int64_t batch, int count,
              double seconds) {
  std::atomic<int64_t> runs{0};
  std::atomic<bool> go{false};
  std::atomic<int> ready{0};
  std::mutex mutex;
  std::exception_ptr fault;
  Clock::time_point end;
  const auto work = [&] {
    try {
      Session session = engine.session(0, shapes);
      std::vector<Tensor> own, outputs(engine.outputs().size());
      for (size_t at = 0; at < inputs.size(); ++at) own.push_back(filled(session.input(at), inputs[at]));
      session.run(std::span<const Tensor>(own), outputs);
      ++ready;
      while (!go) std::this_thread::yield();
      while (Clock::now() < end && interrupted() == 0) {
        session.run(std::span<const Tensor>(own), outputs);
        ++runs;
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      fault = std::current_exception();
      ++ready;
    }
  };
  std::vector<std::thread> threads;
  for (int at = 0; at < count; ++at) threads.emplace_back(work);
  while (ready < count) std::this_thread::yield();
  const auto begin = Clock::now();
  end = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  go = true;
  for (std::thread& thread : threads) thread.join();
  if (fault) std::rethrow_exception(fault);
  return static_cast<double>(batch * runs) / std::chrono::duration<double>(Clock::now() - begin).count();
}

Json activity(backends::Meter& meter) {
  std::string why;
  const backends::Activity seen = meter.read(why);
  if (!why.empty()) return {{"why", why}};
  return {{"driver", seen.driver},
          {"samples", seen.samples},
          {"utilisation_percent", seen.utilisation_percent},
          {"sm_clock_mhz", seen.sm_clock_mhz},
          {"memory_clock_mhz", seen.memory_clock_mhz},
          {"memory_used_bytes", seen.memory_used_bytes},
          {"memory_total_bytes", seen.memory_total_bytes},
          {"watts", seen.watts},
          {"celsius", seen.celsius}};
}

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

Json summary(std::vector<double> times, int64_t batch) {
  if (times.empty()) return {{"runs", 0}};
  std::sort(times.begin(), times.end());
  const double total = std::accumulate(times.begin(), times.end(), 0.0);
  const Json latency = {{"mean", total / static_cast<double>(times.size())},
                        {"median", percentile(times, 0.5)},
                        {"p90", percentile(times, 0.9)},
                        {"p95", percentile(times, 0.95)},
                        {"p99", percentile(times, 0.99)},
                        {"min", times.front()},
                        {"max", times.back()}};
  return {{"latency_ms", latency},
          {"throughput", static_cast<double>(batch) * static_cast<double>(times.size()) * 1000 / total},
          {"runs", times.size()}};
}

/// Of a step in a body with what is around it, and how often it ran.
std::string shown_name(const LayerTime& layer) {
  if (layer.inside.empty()) return layer.name;
  const size_t space = layer.name.find(' ') + 1;
  return layer.name.substr(0, space) + layer.inside + layer.name.substr(space) + fmt::format(" x {:.4g}", layer.rounds);
}

Json to_json(const Noise& noise, double variation) {
  const auto known = [](double value) { return value < 0 ? Json() : Json(value); };
  return {{"variation_percent", 100 * variation},
          {"other_processes_cores", known(noise.other_cores)},
          {"cpu_mhz_before", known(noise.mhz_before)},
          {"cpu_mhz_after", known(noise.mhz_after)}};
}

Json bench(const Options& options, const std::vector<TensorInfo>& infos, const std::map<std::string, Tensor>& arrays,
           int64_t batch) {
  const Shapes shapes = shapes_for(infos, given_shapes(options, arrays), batch);
  if (batch == 0) batch = infos.empty() || shapes.at(infos[0].name).empty() ? 1 : shapes.at(infos[0].name)[0];
  const Engine engine = options.open(shapes, [&](BuildOptions& build) { add_data(options, infos, shapes, build); });
  Session session = engine.session(options.threads, shapes);
  std::vector<Tensor> inputs, outputs(engine.outputs().size());
  for (const TensorInfo& info : engine.inputs()) {
    const auto given = arrays.find(info.name);
    inputs.push_back(filled(session.input(inputs.size()),
                            given != arrays.end()
                                ? given->second
                                : random_array(info.dtype, Dims(shapes.at(info.name)), first_seed + inputs.size())));
  }

  Json result = {{"model", options.model}};
  const std::unique_ptr<backends::Meter> meter = backends::backend(engine.device()).meter(engine.device());
  const NoiseMeter noise_meter;
  const std::vector<double> times = measure(session, inputs, outputs, options);
  const Noise noise = noise_meter.read();
  result.update(summary(times, batch));
  result["noise"] = to_json(noise, coefficient_of_variation(times));
  if (!options.quiet)
    for (const std::string& warning : noise_warnings(coefficient_of_variation(times), noise)) warn(warning);
  if (options.streaming > 0 && interrupted() == 0)
    result["streaming"] = {
        {"sessions", options.streaming},
        {"throughput", stream(engine, shapes, inputs, batch, options.streaming, parse_seconds(options.seconds))}};
  if (meter) result["gpu"] = activity(*meter);
  const MemoryUse memory = session.memory();
  result["memory"] = {{"arena_bytes", memory.arena_bytes},
                      {"arena_lower_bound", memory.arena_lower_bound},
                      {"weights_bytes", memory.weights_bytes},
                      {"peak_rss_bytes", peak_rss_bytes()}};
  if (memory.device_bytes > 0) result["memory"].update(explain::device_memory(memory));
  if (const std::vector<double> alone = session.device_times(device_runs); !alone.empty()) {
    const Json device = summary(alone, batch);
    result["device_latency_ms"] = device["latency_ms"];
    result["device_throughput"] = device["throughput"];
  }
  result["precision"] = name(engine.precision());
  result["device"] = engine.device().str();
  result["batch"] = batch;
  result["threads"] = session.threads();
  result["shapes"] = shapes;
  result["layers"] = Json::array();
  if (interrupted() == 0)
    for (const LayerTime& layer : session.profile(inputs, profiled_runs))
      result["layers"].push_back({{"name", shown_name(layer)},
                                  {"origins", layer.origins},
                                  {"tactic", layer.tactic},
                                  {"us", layer.microseconds}});
  result["complete"] = interrupted() == 0;
  return result;
}

void print_layers(const Json& layers) {
  double total = 0;
  for (const Json& layer : layers) total += layer["us"].get<double>();
  print_out("\n{:>10} {:>6}  {:<28} {}\n", "us", "%", "kernel", "layer");
  for (const Json& layer : layers) {
    const double time = layer["us"].get<double>();
    print_out("{:10.1f} {:6.1f}  {:<28} {}\n", time, total > 0 ? 100 * time / total : 0,
              layer["tactic"].get<std::string>(), printable(layer["name"].get<std::string>()));
  }
}

void print(const Json& result, bool header) {
  if (!result.contains("latency_ms")) return;
  const Json& latency = result["latency_ms"];
  if (header)
    print_out("{:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>6} {:>12} {:>10} {:>10}\n", "batch", "median ms", "mean",
              "p90", "p99", "min", "CV %", "items/s", "arena", "weights");
  print_out("{:6} {:10.3f} {:10.3f} {:10.3f} {:10.3f} {:10.3f} {:6.1f} {:12.1f} {:>10} {:>10}\n",
            result["batch"].get<int64_t>(), latency["median"].get<double>(), latency["mean"].get<double>(),
            latency["p90"].get<double>(), latency["p99"].get<double>(), latency["min"].get<double>(),
            result["noise"]["variation_percent"].get<double>(), result["throughput"].get<double>(),
            bytes_text(result["memory"]["arena_bytes"]), bytes_text(result["memory"]["weights_bytes"]));
  if (result.contains("streaming"))
    print_out("{:>6} {:>74.1f}  {} at once\n", "", result["streaming"]["throughput"].get<double>(),
              counted(result["streaming"]["sessions"].get<int>(), "session"));
  if (result.contains("gpu") && result["gpu"].contains("samples"))
    print_out("{:>6} GPU {:.0f} % busy, SM {:.0f} MHz, memory {:.0f} MHz and {} in use, {:.0f} W, {:.0f} C\n", "",
              result["gpu"]["utilisation_percent"].get<double>(), result["gpu"]["sm_clock_mhz"].get<double>(),
              result["gpu"]["memory_clock_mhz"].get<double>(),
              bytes_text(result["gpu"]["memory_used_bytes"].get<int64_t>()), result["gpu"]["watts"].get<double>(),
              result["gpu"]["celsius"].get<double>());
  if (!result.contains("device_latency_ms")) return;
  const Json& device = result["device_latency_ms"];
  print_out("{:>6} {:10.4f} {:10.4f} {:10.4f} {:10.4f} {:10.4f} {:>19.1f}  on the GPU, without copies\n", "",
            device["median"].get<double>(), device["mean"].get<double>(), device["p90"].get<double>(),
            device["p99"].get<double>(), device["min"].get<double>(), result["device_throughput"].get<double>());
}

int work(const Options& options) {
  if (options.streaming < 0 || options.streaming > most_sessions)
    throw Error(Code::usage, "invalid number of sessions", {.where = "--streaming", .hint = "give 1 to 64"});
  if (options.iterations < 0 || options.warmup < 0) throw Error(Code::usage, "a negative number of runs");
  parse_seconds(options.seconds);  // a wrong word is known before the model is built
  const std::vector<TensorInfo> infos = options.stated_inputs();
  const std::vector<int64_t> batches =
      options.batches.empty() ? std::vector<int64_t>{0} : parse_counts(options.batches);
  const std::map<std::string, Tensor> arrays = read_inputs(options.inputs, infos);
  if (!arrays.empty() && !options.batches.empty())
    throw Error(Code::usage, "--input and --batch both give sizes", {.hint = "leave one of them out"});
  // What cannot be measured is known before anything is.
  for (const int64_t batch : batches) shapes_for(infos, given_shapes(options, arrays), batch);
  Json results = Json::array();
  for (const int64_t batch : batches) {
    if (interrupted() != 0) break;
    results.push_back(bench(options, infos, arrays, batch));
    if (options.json == "-") continue;
    print(results.back(), results.size() == 1);
    if (options.layers) print_layers(results.back()["layers"]);
  }
  if (!options.json.empty()) write_json(options.json, batches.size() == 1 ? results.at(0) : Json{{"results", results}});
  return interrupted();
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto options = std::make_shared<Options>();
  options->add_to(app);
  flags.add("--iterations", options->iterations, "Timed runs; 0: as many as --seconds allows, at least 10").value("N");
  flags.add("--warmup", options->warmup, "Runs before them").value("N").with_default();
  flags.add("--seconds", options->seconds, "Time for the timed runs").value("TIME").with_default();
  flags.add("--batch,--batch-size", options->batches, "Batch sizes to measure one after the other: 1,4,8,16")
      .value("LIST");
  flags
      .add("--streaming", options->streaming,
           "Also measure N sessions at once, so that copies overlap with computation; 0: none")
      .value("N");
  flags.add("--layers", options->layers, "Print the time of each layer");
  add_inputs(
      flags, options->inputs,
      "Values for an input, where times depend on them or random ones are not valid: NAME=x.npy, as run takes them");
  options->data.add_to(app);
  add_json(app, options->json);
  flags.footer(
      "Latency is the wall time of one run in one stream, and CV its coefficient of variation; inputs\n"
      "without --input are random with a fixed seed, in the session's own memory, and of the sizes that an engine was\n"
      "tuned for. On a GPU the memory is page-locked, and the report has load, clocks, memory and power by NVML.\n"
      "An INT8 engine of a model without --data is calibrated on random numbers: its time holds, its results do not.\n"
      "With --pytorch-model NAME --engines DIR PyTorch, ONNX Runtime and engines are compared (Python).\n"
      "Examples:\n"
      "  tenon bench model.tenon --layers\n"
      "  tenon bench model.tenon --device cuda --batch 32 --streaming 3\n"
      "  tenon bench model.onnx --batch 1,4,8,16 --threads 2 --iterations 100 --json -");
  return [options] { return work(*options); };
}

const Registrar registrar({5, "bench", "Measure latency, throughput, memory and the time of each layer", add});

}  // namespace
}  // namespace tenon::cli::bench_verb

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tenon/tenon.hpp>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <random>
#include <thread>

#include "base/file.h"
#include "engine/engine.h"
#include "onnx/import.h"
#include "onnx/model.h"
#include "passes/pass.h"
#include "support/command.h"

/// Damages real models and lets the compiler work on them: an Error or an engine, never a crash, a hang or a gigabyte.
namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr int truncations = 200, flips = 1000, built_flips = 300;
constexpr int64_t small_model = 400'000;  // bytes; such a model is also built and run
constexpr double seconds_per_megabyte = 10;
constexpr int64_t most_bytes = 1 << 30, tensor_bytes = 700 << 20;
// Under a sanitizer, many times slower, every fifth mutation; peak memory is the sanitizer's own then.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
constexpr int step = 5;
#else
constexpr bool sanitized = false;
constexpr int step = 1;
#endif

const fs::path sample = fs::path(TENON_SOURCE_DIR) / "samples/detector.onnx";
const fs::path models = fs::path(TENON_SOURCE_DIR) / "../shared/data/models";  // more of them, where they are

std::vector<std::string> all_models() {
  std::vector<std::string> paths = {sample.string()};
  if (fs::exists(models))
    for (const auto& entry : fs::recursive_directory_iterator(models))
      if (entry.path().extension() == ".onnx") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// Bits of the file outside large raw data, where damage means something.
std::vector<size_t> structure(const std::string& bytes) {
  const auto view = std::as_bytes(std::span(bytes));
  const onnx::ModelProto model = onnx::parse_model(view, "m");
  std::vector<char> is_data(bytes.size(), 0);
  const auto mark = [&](const onnx::TensorProto& tensor) {
    if (tensor.raw && tensor.raw->size() > 64)
      std::fill_n(is_data.begin() + (tensor.raw->data() - view.data()), tensor.raw->size(), 1);
  };
  for (const auto& tensor : model.graph.initializers) mark(tensor);
  for (const auto& node : model.graph.nodes)
    for (const auto& attribute : node.attributes)
      if (attribute.tensor) mark(*attribute.tensor);
  std::vector<size_t> positions;
  for (size_t at = 0; at < bytes.size(); ++at)
    if (!is_data[at]) positions.push_back(at);
  return positions;
}

class Mutations {
 public:
  explicit Mutations(const std::string& path)
      : whole_(test::read_text(path)),
        structure_(structure(whole_)),
        builds_(static_cast<int64_t>(whole_.size()) < small_model) {}
  int count() const { return truncations + flips + 1 + (builds_ ? built_flips : 0); }
  size_t bytes() const { return whole_.size(); }
  std::string name(int index) const {
    return index < truncations            ? "truncation " + std::to_string(index)
           : index <= truncations + flips ? "flip " + std::to_string(index - truncations)
                                          : "built flip " + std::to_string(index);
  }
  /// The damaged bytes; the same for the same index.
  std::string make(int index) const {
    std::mt19937_64 random(static_cast<uint64_t>(index) * 7919 + 1);
    if (index < truncations) return whole_.substr(0, random() % whole_.size());
    std::string bytes = whole_;
    const auto flip = [&](size_t at) { bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8); };
    if (index == truncations + flips)
      for (int at = 0; at < flips; ++at) flip(random() % bytes.size());
    else flip(index % 2 ? random() % bytes.size() : structure_[random() % structure_.size()]);
    return bytes;
  }
  void work(int index, const test::Folder& folder) const {
    auto bytes = std::make_shared<const std::string>(make(index));
    try {
      if (index > truncations + flips) {
        folder.write("m.onnx", *bytes);
        build_and_run(folder / "m.onnx");
      } else {
        ir::Graph graph = onnx::import_bytes(std::as_bytes(std::span(*bytes)), "", "m", bytes);
        passes::optimise(graph);
        passes::lower(graph);
      }
    } catch (const Error&) {
    }
  }

 private:
  static void build_and_run(const std::string& path) {
    BuildOptions options;
    options.budget_seconds = 0;
    options.timing_cache = "-";
    options.threads = 2;
    const Engine engine = build(path, options);
    Session session = engine.session();
    std::map<std::string, Tensor> inputs;
    const auto& shapes = plan_of(engine).shapes;
    for (const TensorInfo& info : engine.inputs())
      inputs[info.name] = Tensor(info.dtype, Dims(std::span<const int64_t>(shapes.at(info.name))));
    session.run(inputs);
  }

  std::string whole_;
  std::vector<size_t> structure_;
  bool builds_;
};

double seconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A hang is told by processor time, for on a busy machine anything lasts; a deadlock, which takes none, by the clock.
struct Progress {
  std::atomic<int> index;
  std::atomic<double> started, worked;

  void start(int next, double work) { index = next, started = seconds(CLOCK_MONOTONIC), worked = work; }
  bool hangs(pid_t child, double most) const {
    clockid_t clock;
    return seconds(CLOCK_MONOTONIC) - started > 20 * most ||
           (::clock_getcpuclockid(child, &clock) == 0 && seconds(clock) - worked > most);
  }
};

class Model : public ::testing::TestWithParam<std::string> {};

TEST_P(Model, SurvivesDamage) {
  const Mutations mutations(GetParam());
  const double most_seconds = std::max(10.0, seconds_per_megabyte * static_cast<double>(mutations.bytes()) / 1e6);
  void* page = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& progress = *new (page) Progress{};
  int failures = 0;
  for (int next = 0; next < mutations.count() && failures < 5;) {
    progress.start(next, 0);
    const pid_t child = ::fork();
    if (child == 0) {
      int status = 0;
      try {
        set_limits({.memory_bytes = tensor_bytes, .loop_rounds = 1000});
        const test::Folder folder;
        for (int index = next; index < mutations.count(); index += step) {
          progress.start(index, seconds(CLOCK_PROCESS_CPUTIME_ID));
          mutations.work(index, folder);
        }
      } catch (const std::exception& fault) {
        ::dprintf(STDERR_FILENO, "%s\n", fault.what());
        status = 1;
      }
      ::_exit(status);
    }
    int status = 0;
    rusage used{};
    bool hangs = false;
    while (::wait4(child, &status, WNOHANG, &used) == 0) {
      if (!hangs && progress.hangs(child, most_seconds)) hangs = true, ::kill(child, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    const int index = progress.index;
    if (!sanitized && static_cast<int64_t>(used.ru_maxrss) * 1024 > most_bytes)
      ++failures, ADD_FAILURE() << used.ru_maxrss / 1024 << " MiB up to " << mutations.name(index);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    ++failures;
    ADD_FAILURE() << mutations.name(index)
                  << (hangs                 ? " hangs"
                      : WIFSIGNALED(status) ? std::string(" ends with signal ") + ::strsignal(WTERMSIG(status))
                                            : " throws what is no Error");
    next = index + step;
  }
  ::munmap(page, sizeof(Progress));
}

INSTANTIATE_TEST_SUITE_P(Files, Model, ::testing::ValuesIn(all_models()), [](const auto& info) {
  std::string name = fs::path(info.param).stem().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace tenon

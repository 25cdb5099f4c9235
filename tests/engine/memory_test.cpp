// SPDX-License-Identifier: Apache-2.0
// What builds, saves and runs add to a process at their peak, beside the bytes of the weights.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "engine/engine.h"
#include "onnx/write.h"
#include "ops/op.h"
#include "support/net.h"

namespace tenon {
namespace {

using namespace test;

constexpr int64_t side = 2048, layers = 8;
constexpr double weights = side * side * 4.0 * layers;  // 128 MiB
// Sanitizers keep what is freed, and shadows of it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_counted = false;
#elif defined(__has_feature)
constexpr bool is_counted = !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool is_counted = true;
#endif

/// A field of /proc/self/status, in bytes.
double status(const char* field) {
  std::FILE* const file = std::fopen("/proc/self/status", "r");
  char line[256];
  double bytes = 0;
  while (std::fgets(line, sizeof line, file))
    if (std::string(line).rfind(field, 0) == 0) bytes = std::strtod(line + std::strlen(field) + 1, nullptr) * 1024;
  std::fclose(file);
  return bytes;
}

/// By how many times the bytes of the weights a child process grows at most while it does the work; -1: it failed.
double growth(const std::function<void()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    double peak = -1;
    try {
      const double before = status("VmRSS");
      work();
      peak = (status("VmHWM") - before) / weights;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    const bool written = ::write(ends[1], &peak, sizeof peak) == sizeof peak;
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);  // a child that falls writes nothing
  double peak = -1;
  if (::read(ends[0], &peak, sizeof peak) != sizeof peak) peak = -1;
  ::close(ends[0]);
  int ended = 0;
  ::waitpid(child, &ended, 0);
  EXPECT_EQ(ended, 0) << "the child process fell";
  return peak;
}

/// Products one behind the other.
ir::Graph chain() {
  ir::Graph graph;
  ir::ValueId at = graph.add_value("x", DType::f32, ir::Shape{ir::Dim(4), ir::Dim(side)});
  graph.inputs = {at};
  for (int64_t layer = 0; layer < layers; ++layer) {
    Tensor w(DType::f32, {side, side});
    for (int64_t k = 0; k < w.elements(); ++k)
      w.data<float>()[k] = static_cast<float>((k * 2654435761u + static_cast<uint64_t>(layer)) % 1024) / 32768 - 0.015f;
    at = graph.apply("MatMul", {at, graph.add_constant("w" + std::to_string(layer), w)}, {}, {},
                     "m" + std::to_string(layer));
  }
  graph.outputs = {at};
  graph.output_names = {"y"};
  ops::infer(graph);
  return graph;
}

class Memory : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<Folder>();
    model_ = *folder_ / "m.onnx", engine_ = *folder_ / "m.tenon";
    // In a process of its own, so that this one stays small.
    growth([&] {
      onnx::write_file(chain(), model_);
      build(model_, quick_build()).save(engine_);
    });
  }
  static void TearDownTestSuite() { folder_.reset(); }
  void SetUp() override {
    if (!is_counted) GTEST_SKIP() << "a sanitizer's own memory is counted, too";
  }
  static inline std::unique_ptr<Folder> folder_;
  static inline std::string model_, engine_;
  Tensor x_ = random_tensor({4, side}, 1);
};

TEST_F(Memory, OfABuildIsTheWeightsAndALayer) {
  BuildOptions timed = quick_build();
  timed.budget_seconds = 2;
  const double peak = growth([&] { build(model_, timed).save(*folder_ / "again.tenon"); });
  EXPECT_GE(peak, 0);
  EXPECT_LE(peak, 1.5);
}

TEST_F(Memory, OfSavingIsNotThatOfTheWeights) {
  // Mapped weights come into the process page by page and go again.
  const double peak = growth([&] { load(engine_).save(*folder_ / "again.tenon"); });
  EXPECT_GE(peak, 0);
  EXPECT_LE(peak, 0.4);
}

TEST_F(Memory, OfARunHoldsWeightsOnce) {
  const double peak = growth([&] { load(engine_).session(1).run({{"x", x_}}); });
  EXPECT_GE(peak, 0);
  EXPECT_LE(peak, 1.35);  // a layer is an eighth, and is transposed before it is packed
}

TEST_F(Memory, OfSessionsIsShared) {
  const double peak = growth([&] {
    const Engine engine = load(engine_);
    Session one = engine.session(1), two = engine.session(2);
    one.run({{"x", x_}}), two.run({{"x", x_}});
    const auto counted = static_cast<double>(two.memory().weights_bytes);
    if (counted < 0.99 * weights || counted > 1.1 * weights) throw std::runtime_error("weights are counted twice");
  });
  EXPECT_GE(peak, 0);
  EXPECT_LE(peak, 1.35);
}

}  // namespace
}  // namespace tenon

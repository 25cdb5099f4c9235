// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "onnx/import.h"
#include "passes/pass.h"
#include "compile/calibrate.h"
#include "support/net.h"

namespace tenon::compile {
namespace {

constexpr int count = 40, pause_at = 10, die_at = 25;

/// Random samples with a cache in a file. One that is mortal stops for longer than checkpoints are apart, then dies.
class CachedSamples : public Calibrator {
 public:
  CachedSamples(std::string cache, bool mortal) : cache_(std::move(cache)), mortal_(mortal) {}
  bool next_batch(CalibrationBatch& batch) override {
    if (at_ == count) return false;
    if (mortal_ && at_ == pause_at) std::this_thread::sleep_for(std::chrono::milliseconds(3100));
    if (mortal_ && at_ == die_at) ::kill(::getpid(), SIGKILL);
    batch.inputs = {{"", test::random_tensor({1, 3, 8, 8}, static_cast<unsigned>(at_))}};
    batch.names = {"image " + std::to_string(at_++)};
    return true;
  }
  std::string read_cache() override { return std::filesystem::exists(cache_) ? test::read_text(cache_) : ""; }
  void write_cache(const std::string& text) override { write_atomically(cache_, std::as_bytes(std::span(text))); }

 private:
  std::string cache_;
  bool mortal_;
  int at_ = 0;
};

quant::Recipe run(const ir::Graph& graph, const std::string& cache, bool mortal, std::string* told = nullptr) {
  CachedSamples samples(cache, mortal);
  Setting setting;
  setting.logger = Logger([&](Severity, std::string_view text) {
    if (told) (*told += text) += "\n";
  });
  return calibrate(graph, samples, setting);
}

TEST(calibrate, goes_on_after_being_killed_and_gives_the_recipe_of_an_unbroken_run) {
  const test::Folder folder;
  folder.write("m.onnx", test::small_net());
  ir::Graph graph = onnx::import_file(folder / "m.onnx");
  passes::optimise(graph);
  const pid_t child = ::fork();
  if (child == 0) {
    run(graph, folder / "cache", true);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  std::string told;
  const quant::Recipe resumed = run(graph, folder / "cache", false, &told);
  EXPECT_EQ(told.substr(0, told.find('\n')),
            "going on after " + std::to_string(pause_at + 1) + " samples that an earlier run has seen");
  const quant::Recipe unbroken = run(graph, folder / "other", false);
  EXPECT_TRUE(resumed.values == unbroken.values);
  EXPECT_EQ(resumed.kept, unbroken.kept);
  ASSERT_EQ(resumed.anchors.size(), unbroken.anchors.size());
  for (const auto& [name, weights] : unbroken.anchors) {
    const quant::WeightQuantiser& other = resumed.anchors.at(name);
    EXPECT_EQ(other.scales, weights.scales);
    EXPECT_EQ(other.paired, weights.paired);
    // Sums of two parts differ from one sum in the last bits.
    ASSERT_EQ(other.bias.size(), weights.bias.size());
    for (size_t at = 0; at < weights.bias.size(); ++at) EXPECT_NEAR(other.bias[at], weights.bias[at], 1e-6);
  }
}

}  // namespace
}  // namespace tenon::compile

// SPDX-License-Identifier: Apache-2.0
#include "plan/timing_key.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "backends/cuda/runtime/kernel.h"
#include "compile/tune.h"
#include "ops/op.h"
#include "support/net.h"

namespace tenon::plan {
namespace {

using namespace test;

constexpr double told = 123456;  // microseconds that nothing here takes

/// A plan of one convolution that several kernels take.
Plan plan_of_convolution() {
  Plan plan;
  plan.graph = ir::parse(
      "graph \"g\"\ninput %x : f32[1,12,12,16]\nconst %w : f32[16,16,3,3] = @0\n"
      "%y : f32[1,12,12,16] = Conv(%x, %w) {layout=\"NHWC\", pads=[1, 1, 1, 1]}\noutput %y as \"y\"\n",
      {random_tensor({16, 16, 3, 3}, 1)});
  ops::infer(plan.graph);
  plan.shapes["x"] = {1, 12, 12, 16};
  return plan;
}

Record tuned(const Records& known, double budget_seconds = -1, const Records& own = {}) {
  // What is disturbed has no source: on a busy machine the tests wait for a quiet moment.
  constexpr int most_tries = 100;
  Plan plan;
  for (int tries = 0; tries < most_tries; ++tries) {
    plan = plan_of_convolution();
    plan.records = own;
    compile::Disturbed disturbed;
    if (compile::tune(plan, known, disturbed, budget_seconds, {}).disturbed == 0) break;
  }
  return plan.records.empty() ? Record() : plan.records.begin()->second;
}

std::string key_of_convolution() {
  Plan plan = plan_of_convolution();
  compile::Disturbed disturbed;
  compile::tune(plan, {}, disturbed, -1, {});
  return plan.records.begin()->first;
}

std::map<std::string, Candidate> by_name(const Record& record) {
  std::map<std::string, Candidate> names;
  for (const Candidate& candidate : timed_of(record)) names[candidate.kernel] = candidate;
  return names;
}

/// The record with times that nothing takes.
Record retold(const Record& record) {
  Record changed = record;
  changed.microseconds = told;
  for (Candidate& candidate : changed.candidates) candidate.microseconds = told;
  return changed;
}

TEST(Tune, MeasuresWithSources) {
  const auto names = by_name(tuned({}));
  ASSERT_GE(names.size(), 3u);
  for (const auto& [name, candidate] : names) {
    EXPECT_NE(candidate.source, 0u) << name;
    EXPECT_LT(candidate.microseconds, told) << name;
  }
}

TEST(Tune, KeepsWhatIsKnown) {
  const Record record = tuned({{key_of_convolution(), retold(tuned({}))}});
  for (const auto& [name, candidate] : by_name(record)) EXPECT_EQ(candidate.microseconds, told) << name;
}

TEST(Tune, TimesANewKernelBesideKnownOnes) {
  Record known = retold(tuned({}));
  const std::string added = known.candidates.back().kernel;
  known.candidates.pop_back();
  const Record record = tuned({{key_of_convolution(), known}});
  EXPECT_EQ(record.kernel, added);
  EXPECT_LT(record.microseconds, told);
  for (const Candidate& candidate : record.candidates) EXPECT_EQ(candidate.microseconds, told) << candidate.kernel;
  EXPECT_EQ(record.candidates.size(), known.candidates.size() + 1);
}

TEST(Tune, TimesAChangedKernelAgain) {
  Record known = retold(tuned({}));
  const std::string changed = known.candidates.front().kernel;
  ++known.candidates.front().source;
  known.candidates.push_back({"kernel of yesterday", 1, 5});
  const auto names = by_name(tuned({{key_of_convolution(), known}}));
  EXPECT_LT(names.at(changed).microseconds, told);
  EXPECT_EQ(names.at(known.kernel).microseconds, told);
  EXPECT_EQ(names.count("kernel of yesterday"), 0u);
}

/// What an engine says was measured by whoever made it.
TEST(Tune, MeasuresWhatAnEngineOnlyTells) {
  Record record = retold(tuned({}));
  record.source = 0;
  for (Candidate& candidate : record.candidates) candidate.source = 0;
  const Records own{{key_of_convolution(), record}};
  EXPECT_EQ(tuned({}, 0, own).microseconds, told) << "without time it is what there is";
  for (const auto& [name, candidate] : by_name(tuned({}, -1, own))) EXPECT_LT(candidate.microseconds, told) << name;
}

/// Each plan of a build would wait for a quiet moment again, which does not come.
TEST(Tune, WaitsOnceForWhatIsDisturbed) {
  const Record record = tuned({});
  const std::string given_up = record.candidates.back().kernel;
  compile::Disturbed disturbed;
  disturbed.records[key_of_convolution()] = {given_up, told, {}, 0};
  Plan plan = plan_of_convolution();
  compile::tune(plan, {}, disturbed, -1, {});
  const auto names = by_name(plan.records.begin()->second);
  EXPECT_EQ(names.at(given_up).microseconds, told);
  EXPECT_EQ(names.at(given_up).source, 0u) << "it is not kept for other builds";
  EXPECT_LT(names.at(record.kernel).microseconds, told);
  EXPECT_EQ(names.size(), record.candidates.size() + 1);
  plan = plan_of_convolution();
  compile::tune(plan, {{key_of_convolution(), record}}, disturbed, -1, {});
  EXPECT_LT(by_name(plan.records.begin()->second).at(given_up).microseconds, told) << "what is sound comes first";
}

TEST(Sources, AreKnownOfEveryKernel) {
  for (const char* op : {"Conv", "Int8Conv", "MatMul", "Softmax", "Resize", "Add", "TopK", "LSTM"})
    for (const backends::Kernel* kernel : backends::kernels_for(op))
      if (kernel != &backends::reference_kernel()) {
        EXPECT_NE(source_of(*kernel), 0u) << op << " " << kernel->name;
      }
}

TEST(Sources, DifferByFamily) {
  std::map<std::string, uint64_t> hashes;
  for (const backends::Kernel* kernel : backends::kernels_for("Conv")) hashes[kernel->name] = source_of(*kernel);
  EXPECT_NE(hashes.at("direct"), hashes.at("winograd4"));
  EXPECT_NE(hashes.at("direct"), hashes.at("depthwise"));
  EXPECT_EQ(hashes.at("winograd2"), hashes.at("winograd4"));
}

TEST(Sources, OfAGpuKernelAreItsOwnTexts) {
  cuda::Kernel kernel;
  kernel.file = "src/backends/cuda/reduction/softmax.cpp";
  const auto hash = [&](const std::string& file, const std::vector<std::string>& defines, const std::string& text) {
    return cuda::source_of({&kernel, {"name", {{file, defines, text}}, {}}});
  };
  const uint64_t softmax = hash("softmax.cu", {"A=1"}, "");
  EXPECT_NE(softmax, 0u);
  EXPECT_EQ(softmax, hash("softmax.cu", {"A=1"}, std::string(cuda::kernel_text("softmax.cu"))));
  EXPECT_NE(softmax, hash("softmax.cu", {"A=2"}, ""));
  EXPECT_NE(softmax, hash("softmax.cu", {"A=1"}, std::string(cuda::kernel_text("softmax.cu")) + " "));
  kernel.file = "src/backends/cuda/reduction/topk.cpp";
  EXPECT_NE(softmax, hash("softmax.cu", {"A=1"}, ""));
  kernel.file = "elsewhere.cpp";
  EXPECT_EQ(hash("softmax.cu", {"A=1"}, ""), 0u);
}

/// The table that the build writes for a tree of sources.
std::map<std::string, std::string> hashes_of(const Folder& folder, const std::string& seed = "s") {
  const std::string command = std::string(TENON_CMAKE) + " -DOUTPUT=" + (folder / "out.cpp") +
                              " -DROOT=" + folder.path() + " -DSEED=" + seed +
                              " -P " TENON_SOURCE_DIR "/src/backends/sources.cmake";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::map<std::string, std::string> hashes;
  const std::string text = read_text(folder / "out.cpp");
  for (size_t at = 0; (at = text.find("{\"", at)) != std::string::npos; ++at) {
    const size_t end = text.find('"', at + 2);
    hashes[text.substr(at + 2, end - at - 2)] = text.substr(end + 3, 18);
  }
  return hashes;
}

TEST(Sources, ChangeWithTheFilesThatAKernelLeadsTo) {
  const Folder folder;
  for (const char* path : {"backends/cpu/kernels", "backends/cuda/movement"})
    std::filesystem::create_directories(folder / path);
  const std::string cpu = "backends/cpu/";
  folder.write(cpu + "conv.cpp", "#include \"backends/backend.h\"\n#include \"backends/cpu/kernels/tiles.h\"\n");
  folder.write(cpu + "pool.cpp", "#include \"base/worker.h\"\n");
  folder.write(cpu + "kernels/tiles.h", "");
  folder.write(cpu + "kernels/tiles_isa.cpp", "#include \"backends/cpu/kernels/simd.h\"\n");
  folder.write(cpu + "kernels/simd.h", "");
  folder.write("backends/backend.h", "");
  folder.write("backends/cuda/movement/pad.cpp", "");
  const auto before = hashes_of(folder);
  EXPECT_EQ(before.size(), 4u);
  const auto changed = [&](const std::string& path) {
    const std::string old = read_text(folder / path);
    folder.write(path, old + "//\n");
    std::vector<std::string> names;
    for (const auto& [name, hash] : hashes_of(folder))
      if (before.at(name) != hash) names.push_back(name);
    folder.write(path, old);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(changed(cpu + "kernels/simd.h"), (Names{cpu + "conv.cpp", "kernels/tiles"}));
  EXPECT_EQ(changed(cpu + "pool.cpp"), Names{cpu + "pool.cpp"});
  EXPECT_EQ(changed("backends/cuda/movement/pad.cpp"), Names{"backends/cuda/movement/pad.cpp"});
  EXPECT_EQ(changed("backends/backend.h"), Names{});
  const auto other = hashes_of(folder, "other");
  EXPECT_NE(other.at(cpu + "pool.cpp"), before.at(cpu + "pool.cpp"));
  EXPECT_EQ(other.at("backends/cuda/movement/pad.cpp"), before.at("backends/cuda/movement/pad.cpp"));
}

}  // namespace
}  // namespace tenon::plan

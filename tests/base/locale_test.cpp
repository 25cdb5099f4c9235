// SPDX-License-Identifier: Apache-2.0
// Text for machines (device source, keys, engines, reports) in a process whose locale writes 0.5 as 0,5.
#include <gtest/gtest.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <locale>

#include "backends/cuda/runtime/kernel.h"
#include "engine/engine.h"
#include "explain/report.h"
#include "plan/timing_cache.h"
#include "support/net.h"

/// What the C library keeps of LOCPATH is its own; LeakSanitizer asks by this name.
extern "C" const char* __lsan_default_suppressions() { return "leak:__argz_add_sep"; }

namespace tenon {
namespace {

using namespace test;

/// Switches to a locale with a decimal comma, made for the purpose where the system has none.
class CommaLocale {
 public:
  CommaLocale() {
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"}) try_name(name);
    const std::string make = "localedef -i de_DE -f UTF-8 " + (folder_ / "de_DE.UTF-8") + " >/dev/null 2>&1";
    if (!set_ && std::system(make.c_str()) >= 0) {
      ::setenv("LOCPATH", folder_.path().c_str(), 1);
      try_name("de_DE.UTF-8");
    }
  }
  ~CommaLocale() {
    std::setlocale(LC_ALL, "C");
    std::locale::global(std::locale::classic());
    ::unsetenv("LOCPATH");
  }
  explicit operator bool() const { return set_; }

 private:
  void try_name(const char* name) {
    if (set_ || !std::setlocale(LC_ALL, name)) return;
    char text[8];
    std::snprintf(text, sizeof text, "%.1f", 0.5);
    set_ = std::string(text) == "0,5";
    if (set_) std::locale::global(std::locale(name));
  }
  Folder folder_;
  bool set_ = false;
};

backends::Problem problem_of(const ir::Node& node) {
  backends::Problem problem;
  problem.node = &node;
  problem.inputs = {{DType::f32, {1, 4096}, {4096, 1}}};
  problem.outputs = {{DType::f32, {1, 4096}, {4096, 1}}};
  return problem;
}

std::string device_text() {
  ir::Node node;
  node.op = "tenon:Elementwise";
  node.inputs = {0};
  node.attributes["program"] = std::vector<std::string>{"mul %0 0.3", "clip %1 -1.25 2.5"};
  cuda::Properties properties;
  properties.major = 8, properties.multiprocessors = 100, properties.shared_bytes = 100 << 10;
  std::string text;
  for (const cuda::Choice& choice : cuda::choices(problem_of(node), properties))
    for (const cuda::Source& source : choice.tactic.sources) {
      text += source.text;
      for (const std::string& define : source.defines) text += '\n' + define;
    }
  return text;
}

std::string key() {
  ir::Node node;
  node.op = "LeakyRelu";
  node.attributes = {{"alpha", 0.3f}, {"scales", std::vector<float>{0.5f, 1234567.0f}}};
  return backends::signature(problem_of(node));
}

/// All text that a build, an engine and a report make, and what comes back of it.
std::vector<std::string> texts() {
  const Folder folder;
  const std::string net =
      model(input("x", {1, 3, 8, 8}) + random_weights("w", {4, 3, 3, 3}, 1) + node("c", "Conv", {"x", "w"}, {"a"}) +
            tensor("k", f32, {1}, raw(std::vector<float>{0.3f})) + node("m", "Mul", {"a", "k"}, {"y"}) + output("y"));
  const Engine engine = build_net(folder, net);
  engine.save(folder / "m.tenon");
  const Engine loaded = Engine::load(folder / "m.tenon");
  loaded.save(folder / "again.tenon");
  plan::TimingCache(folder / "c", "any").add({{key(), {"rows", 1234.5, {}, 1}}});
  std::vector<std::string> all{device_text(),
                               key(),
                               read_text(folder / "m.tenon"),
                               read_text(folder / "again.tenon"),
                               read_text(folder / "c"),
                               explain::json(explain::explain(plan_of(loaded), {}, 1)).dump()};
  const plan::TimingCache cache(folder / "c", "any");
  for (const auto& [name, record] : cache.records())
    all.push_back(name + (record.microseconds == 1234.5 ? "" : " has changed"));
  return all;
}

TEST(Locale, ChangesNoTextForMachines) {
  const std::vector<std::string> before = texts();
  ASSERT_NE(before[0].find("0x1.333334p-2"), std::string::npos) << before[0];
  const CommaLocale comma;
  if (!comma) GTEST_SKIP() << "no locale with a decimal comma, and localedef makes none";
  const std::vector<std::string> after = texts();
  ASSERT_EQ(after.size(), before.size());
  for (size_t at = 0; at < before.size(); ++at) EXPECT_EQ(after[at], before[at]) << at;
}

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "onnx/import.h"

namespace CLI {
class App;
}

namespace tenon::cli {

/// The options that every verb which takes a model shares.
struct ModelOptions {
  std::string model;
  std::string device, precision;  // empty: an engine's own; cpu and fp32 for a model
  std::string shapes, budget, timing_cache, external_root;
  std::vector<std::string> skip_passes, profiles, state;
  int threads = 0;
  bool strict = false, no_vendor = false, lenient = false, quiet = false, verbose = false;
  std::string log_level = "warning";

  /// What a verb does with the model: builds an engine where it is none, or reads it only.
  enum class Uses { build, model };
  void add_to(CLI::App& app, Uses uses = Uses::build);
  /// Throws Error(usage), or Error(unsupported) for a device or precision that is not there.
  BuildOptions build_options() const;
  /// Of --verbose and --log-level. Throws Error(usage).
  Severity least_severity() const;
  onnx::ImportOptions import_options() const;
  /// Inputs as MODEL states them, without building it: -1 for sizes that are free.
  std::vector<TensorInfo> stated_inputs() const;
  /// The engine, built first where MODEL is a model. `more` adds to or replaces --shapes; `adjust` has the last word.
  Engine open(const Shapes& more = {}, const std::function<void(BuildOptions&)>& adjust = {}) const;
  /// MODEL itself; for "-" a file that holds the standard input for as long as this lives.
  const std::string& path() const;

 private:
  void add_tuning(CLI::App& app);
  static void add_limits(CLI::App& app, Uses uses);

  mutable std::shared_ptr<const std::string> spooled_;
};

void add_json(CLI::App& app, std::string& json);

/// "in:1x3x640x640,b:2" to sizes by name; a name may hold colons. Throws Error(usage).
Shapes parse_shapes(const std::string& text);
/// "small=in:1x3x64x64..1x3x320x320..8x3x640x640,b:2": the least, best and most sizes of inputs; of two the second is
/// the best, too. Throws Error(usage).
Profile parse_profile(const std::string& text);
/// "present.0.key=past.0.key": an output, and the input of the next run that takes it. Throws Error(usage).
std::pair<std::string, std::string> parse_carried(const std::string& text);
/// "500ms", "5s", "1m", "2" (seconds). Throws Error(usage).
double parse_seconds(const std::string& text);
/// "4096", "512M", "4g", "2GiB", in powers of 1024. Throws Error(usage), which names the option.
int64_t parse_bytes(const std::string& text, const std::string& option);
/// "1,4,8". Throws Error(usage) for anything but positive numbers.
std::vector<int64_t> parse_counts(const std::string& text);

/// The same of any file.
std::vector<TensorInfo> stated_inputs(const std::string& path, const onnx::ImportOptions& options = {});

}  // namespace tenon::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/judge.h"

#include <limits>

#include "cli/data_judge.h"
#include "cli/flags.h"

namespace tenon::cli {
namespace {
constexpr int64_t most_unasked = 256;  // samples where nobody asked for a judge
}  // namespace

void JudgeOptions::add_to(CLI::App& app) {
  Flags flags(app, "Search");
  flags
      .add("--max-drop", max_drop,
           "Percentage points of accuracy that INT8 may lose against FP32: the fastest engine within this limit is "
           "taken. "
           "Default: with labels 0.1; without, as many as saving the images as JPEG once more costs, for boxes three "
           "times that, for masks twice, for classes one and a half times")
      .value("D")
      .between(0.0, 100.0);
  flags
      .add("--objective", objective,
           "latency, or size: INT8 wherever accuracy allows it, also where it is not faster, for a small engine. "
           "Default: "
           "latency")
      .value("NAME")
      .one_of({"latency", "size"});
  flags
      .add("--eval", eval,
           "Images with labels to measure the accuracy on: COCO's JSON, a folder for each class, or JSON or CSV of "
           "image "
           "and class; images without labels are compared with the results of FP32. Default: --data")
      .value("PATH")
      .reads();
  flags.add("--pareto", pareto, "Write the engines that were measured, with time and metric, as JSON")
      .value("FILE")
      .writes(FileKind::json);
}

namespace {
/// Whether an engine is judged though nobody asked for it: it has data, no limit of another kind and, where there is
/// something to choose, time and samples enough for that.
bool is_judged_unasked(const DataOptions& data, const BuildOptions& build) {
  constexpr int64_t fewest_samples = 10;
  if (data.data.empty() || data.max_error >= 0) return false;
  if (build.weights != Weights::given) return true;
  if (build.budget_seconds == 0) return false;
  const int64_t samples = build.calibrator->samples();
  return samples == 0 || samples >= fewest_samples;
}
}  // namespace

void JudgeOptions::apply(const ModelOptions& model, const DataOptions& data, BuildOptions& build) const {
  const bool asked = !eval.empty() || max_drop >= 0 || !pareto.empty();
  if (!build.calibrator) {
    if (!asked && objective.empty()) return;
    throw Error(Code::usage, "there is nothing to choose without INT8",
                {.where = !eval.empty()     ? "--eval"
                          : max_drop >= 0   ? "--max-drop"
                          : !pareto.empty() ? "--pareto"
                                            : "--objective",
                 .hint = "give --precision best or int8, and --data"});
  }
  if (!objective.empty() && objective != "latency" && objective != "size")
    throw Error(Code::usage, "invalid value \"" + objective + "\"",
                {.where = "--objective", .hint = "give latency or size"});
  if (objective == "size") build.objective = Objective::size;
  if (!asked && !is_judged_unasked(data, build)) return;
  if (max_drop >= 0) build.max_drop = max_drop;
  if (data.max_error < 0) build.calibration.target_error = std::numeric_limits<double>::infinity();
  DataOptions samples = data;
  if (!asked && (samples.options.count == 0 || samples.options.count > most_unasked))
    samples.options.count = most_unasked;
  build.judge = data_judge(eval, samples, model.stated_inputs(), build);
}

}  // namespace tenon::cli

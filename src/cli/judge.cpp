// SPDX-License-Identifier: Apache-2.0
#include "cli/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "base/entries.h"
#include "cli/flags.h"
#include "cli/labelled.h"
#include "cli/report.h"
#include "engine/engine.h"
#include "metrics/agreement.h"
#include "metrics/bootstrap.h"
#include "metrics/boxes.h"
#include "quant/data_loader.h"
#include "vision/decode.h"
#include "vision/detect.h"
#include "vision/labels.h"

namespace fs = std::filesystem;

namespace tenon::cli {
namespace {

constexpr double points = 100;          // of a share of 1
constexpr double least_overlap = 0.5;   // of boxes that are the same object
constexpr float counted_score = 0.25f;  // as tenon detect's
constexpr int64_t most_unasked = 256;   // samples where nobody asked for a judge

/// Labelled images in their order, one a batch; keeps how each lies in the input.
class LabelledSamples : public Calibrator {
 public:
  LabelledSamples(const Labels& labels, const vision::Spec& spec, std::vector<vision::Transform>& transforms)
      : labels_(labels), spec_(spec), transforms_(transforms) {
    transforms_.clear();
  }
  int64_t samples() const override { return static_cast<int64_t>(labels_.images.size()); }
  bool next_batch(CalibrationBatch& batch) override {
    if (transforms_.size() == labels_.images.size()) return false;
    const std::string& path = labels_.images[transforms_.size()].path;
    const vision::Image image = vision::decode_image(path);
    std::vector<vision::Transform> one;
    batch.inputs[""] = vision::preprocess(std::span<const vision::Image>(&image, 1), spec_, &one);
    batch.names = {path};
    transforms_.push_back(one[0]);
    return true;
  }

 private:
  const Labels& labels_;
  const vision::Spec& spec_;
  std::vector<vision::Transform>& transforms_;
};

std::vector<metrics::Found> plain(const std::vector<vision::Detection>& detections) {
  std::vector<metrics::Found> found;
  for (const vision::Detection& one : detections)
    found.push_back({one.class_id, one.score, {one.box[0], one.box[1], one.box[2], one.box[3]}});
  return found;
}

/// Numbers of sample `row` of a batch.
std::span<const float> row_of(const Tensor& output, int64_t row) {
  const auto count = static_cast<size_t>(output.elements() / output.dims()[0]);
  return output.values<float>().subspan(static_cast<size_t>(row) * count, count);
}

/// Numbers per sample where the output is a class score for each; 0 where it is something else.
int64_t classes_in(const std::vector<Tensor>& outputs, int64_t batch) {
  if (outputs.empty() || outputs[0].dtype() != DType::f32) return 0;
  const Dims& dims = outputs[0].dims();
  if (dims.rank() < 2 || dims[0] != batch) return 0;
  int64_t classes = 1;
  for (size_t axis = 1; axis < dims.rank(); ++axis) {
    if (dims[axis] != 1 && classes != 1) return 0;
    classes *= dims[axis];
  }
  return classes > 1 ? classes : 0;
}

/// A session for the sizes that the engine was built for.
struct Runner {
  const Engine engine;
  const ir::Graph graph;
  Session session;
  std::vector<Tensor> outputs;

  explicit Runner(const Engine& one)
      : engine(one),
        graph(plan::concretise(plan_of(one).graph, plan_of(one).shapes)),
        session(one.session()),
        outputs(one.outputs().size()) {
    for (const ir::ValueId id : graph.inputs)
      if (!graph.value(id).shape || !ir::is_constant(*graph.value(id).shape))
        throw Error(Code::usage, "engines can only be judged at known sizes",
                    {.where = "input \"" + graph.value(id).name + "\"", .hint = "give its sizes with --shapes"});
  }
};

class DataJudge : public Judge {
 public:
  DataJudge(const JudgeOptions& options, const DataOptions& data, const std::vector<TensorInfo>& inputs,
            const BuildOptions& build)
      : data_(data), inputs_(inputs), shapes_(build.shapes), progress_(build.progress) {
    data_.cache.clear();
    if (options.eval.empty()) return;
    if (!is_there(options.eval))
      throw Error(Code::io, "cannot open the data to judge by",
                  {.where = options.eval, .why = "No such file or directory"});
    if (!holds_labels(options.eval)) {
      data_.data = {options.eval};
      data_.options.count = 0;
      return;
    }
    std::vector<std::string> folders;
    for (const std::string& path : data.data)
      if (is_folder(path)) folders.push_back(path);
    labels_ = read_labels(options.eval, folders);
    spec_ = image_spec(data_, inputs_, shapes_, options.eval);
  }

  std::string metric() const override {
    if (head_) return labels_ ? "mAP50-95" : "F1 of boxes against fp32's";
    if (classes_ > 0) return labels_ ? "top-1" : "expected top-1 agreement with fp32";
    return "share of fp32's signal in the outputs";
  }
  int64_t samples() const override { return samples_; }
  /// What fp32 sees is no truth, and each change counts as a loss: boxes and classes may lose more of it. An expected
  /// change of a class in 100 often is two on other images.
  double usual_drop() const override { return labels_ ? 0.1 : head_ ? 1 : classes_ > 0 ? 0.75 : 0.1; }

  double reference(const Engine& engine) override {
    floats_.emplace(engine);
    Answers answers = ask(engine, "judge fp32");
    if (samples_ == 0) throw Error(Code::usage, "there is no data to judge by");
    reference_ = std::move(answers);
    return points * (reference_.precision ? reference_.precision->value() : labels_ ? reference_.share.value() : 1);
  }

  Score score(const Engine& engine) override {
    Answers answers = ask(engine, "judge");
    Score score;
    std::function<double(std::span<const uint32_t>)> drop;
    if (answers.precision)
      drop = [&](auto weights) {
        return points * (reference_.precision->value(weights) - answers.precision->value(weights));
      };
    else if (labels_)
      drop = [&](auto weights) { return points * (reference_.share.value(weights) - answers.share.value(weights)); };
    else if (classes_ > 0) drop = [&](auto weights) { return points * (1 - answers.agreement.value(weights)); };
    else drop = [&](auto weights) { return points * (1 - answers.share.value(weights)); };
    score.drop = drop({});
    score.value = labels_ ? points * (answers.precision ? answers.precision->value() : answers.share.value())
                          : points - score.drop;
    const metrics::Interval interval = metrics::bootstrap(samples_, drop);
    score.low = interval.low, score.high = interval.high;
    if (samples_ < 2) score.low = -points, score.high = points;  // one sample says nothing of others
    // Where no sample differs, drawing them again shows nothing: the rule of three bounds what they can hide.
    if (classes_ > 0 && answers.classes == reference_.classes)
      score.high = std::max(score.high, std::min(points, 3 * points / static_cast<double>(samples_)));
    return score;
  }

 private:
  /// What an engine gives for all samples; which parts are used depends on the metric.
  struct Answers {
    std::vector<std::vector<metrics::Found>> boxes;
    std::vector<int> classes;
    std::vector<double> margins;
    metrics::Agreement agreement;
    metrics::Share share;
    std::optional<metrics::AveragePrecision> precision;
  };

  Answers ask(const Engine& engine, const char* stage) {
    Runner runner(engine);
    std::optional<Runner> other;
    std::shared_ptr<Calibrator> source;
    if (labels_) source = std::make_shared<LabelledSamples>(*labels_, spec_, transforms_);
    else source = calibration_data(data_, inputs_, shapes_, false);
    quant::DataLoader loader(runner.graph, *source, labels_ ? 0 : data_.options.count);
    Answers answers;
    bool first = samples_ == 0;
    int64_t at = 0;
    while (const auto batch = loader.next()) {
      runner.session.run(batch->inputs, runner.outputs);
      if (first) recognise(runner, *batch);
      first = false;
      if (head_ || classes_ > 0 || samples_ == 0) other.reset();
      else if (!other) other.emplace(*floats_);
      if (other) other->session.run(batch->inputs, other->outputs);
      for (size_t row = 0; row < batch->names.size(); ++row, ++at)
        note(answers, runner.outputs, other ? &other->outputs : nullptr, static_cast<int64_t>(row), at);
      const double done = loader.expected() > 0 ? static_cast<double>(at) / static_cast<double>(loader.expected()) : 0;
      if (progress_ && !progress_(stage, std::min(done, 1.0), -1))
        throw Error(Code::usage, "the build was cancelled");
    }
    samples_ = at;
    return answers;
  }

  /// What the model is, by what it gives for the first batch.
  void recognise(const Runner& runner, const quant::DataLoader::Batch& batch) {
    const Dims& input = batch.inputs[0].dims();
    const auto metadata = runner.engine.metadata().find("names");
    std::vector<std::string> names;
    if (metadata != runner.engine.metadata().end()) names = vision::labels_from_metadata(metadata->second);
    if (batch.inputs.size() == 1 && input.rank() == 4) {
      const bool last = input[3] == 3 && input[1] != 3;
      frame_.input_width = frame_.source_width = static_cast<int>(input[last ? 2 : 3]);
      frame_.input_height = frame_.source_height = static_cast<int>(input[last ? 1 : 2]);
      head_ = vision::recognise(runner.outputs, frame_.input_width, frame_.input_height, names.size());
      if (head_ && !labels_ && !gives_scores(runner.outputs)) head_.reset();
    }
    // Several outputs say more than a class.
    if (!head_ && (labels_ || runner.outputs.size() == 1))
      classes_ = classes_in(runner.outputs, input.rank() > 0 ? input[0] : 0);
    if (!labels_) return;
    const char* const kind = head_          ? "a detector"
                             : classes_ > 0 ? "a classifier"
                                            : "neither a detector nor a classifier";
    if (labels_->boxes ? !head_ : classes_ == 0)
      throw Error(Code::usage,
                  fmt::format("the labels are {}, and the model is {}", labels_->boxes ? "boxes" : "classes", kind),
                  {.where = labels_->where,
                   .hint = "give a folder of images without labels to judge by the outputs of fp32"});
    // The number of classes that some heads have is not in their sizes.
    const bool untold = head_ && head_->classes == 0;
    label_classes_ = tenon::cli::classes_of(*labels_, names, !head_ ? classes_ : untold ? INT32_MAX : head_->classes);
  }

  /// Whether what looks like boxes has scores: other networks give cubes of numbers, too.
  bool gives_scores(const std::vector<Tensor>& outputs) const {
    const auto found = vision::detect(*head_, outputs, 0, frame_, {0.001f, 0.7f, 300});
    return std::all_of(found.begin(), found.end(), [](const vision::Detection& one) { return one.score <= 1; });
  }

  void note(Answers& answers, const std::vector<Tensor>& outputs, const std::vector<Tensor>* exact, int64_t row,
            int64_t at) {
    const auto index = static_cast<size_t>(at);
    if (head_) {
      const vision::Transform& transform = labels_ ? transforms_[index] : frame_;
      // Low scores count for average precision.
      const vision::DetectOptions how{labels_ ? 0.001f : counted_score, 0.7f, 300};
      std::vector<metrics::Found> found = plain(vision::detect(*head_, outputs, row, transform, how));
      if (labels_) {
        if (!answers.precision) answers.precision.emplace();
        answers.precision->add(found, truth_of(index));
        return;
      }
      const std::vector<metrics::Truth> truth = samples_ > 0 ? as_truth(reference_.boxes[index]) : as_truth(found);
      const metrics::Matches matches = metrics::match(found, truth, least_overlap);
      const auto both = static_cast<double>(2 * matches.right);
      answers.share.add(both, both + static_cast<double>(matches.wrong + matches.missed));
      if (samples_ == 0) answers.boxes.push_back(std::move(found));
    } else if (classes_ > 0) {
      const std::span<const float> scores = row_of(outputs[0], row);
      const auto best = static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin());
      answers.classes.push_back(best);
      if (labels_) {
        answers.share.add(best == label_classes_[labels_->images[index].category], 1);
        return;
      }
      const int wanted = samples_ > 0 ? reference_.classes[index] : best;
      answers.margins.push_back(metrics::margin(scores, wanted));
      if (samples_ > 0) answers.agreement.add(reference_.margins[index], answers.margins.back());
    } else if (exact) {
      add_signal(answers, outputs, *exact, row);
    }
  }

  static std::vector<metrics::Truth> as_truth(const std::vector<metrics::Found>& found) {
    std::vector<metrics::Truth> truth;
    for (const metrics::Found& one : found) truth.push_back({one.class_id, one.box});
    return truth;
  }

  std::vector<metrics::Truth> truth_of(size_t source_image) const {
    std::vector<metrics::Truth> truth;
    for (const LabelledBox& box : labels_->images[source_image].boxes)
      truth.push_back({label_classes_[box.category], {box.x0, box.y0, box.x1, box.y1}, box.crowd});
    return truth;
  }

  /// What is left of each output's variance after the squared error, as a share.
  static void add_signal(Answers& answers, const std::vector<Tensor>& outputs, const std::vector<Tensor>& exact,
                         int64_t row) {
    double kept = 0;
    int counted = 0;
    for (size_t at = 0; at < exact.size(); ++at) {
      if (exact[at].dtype() != DType::f32 || exact[at].dims().rank() == 0 || exact[at].elements() == 0) continue;
      const std::span<const float> wanted = row_of(exact[at], row), got = row_of(outputs[at], row);
      double sum = 0, squares = 0, wrong = 0;
      for (size_t i = 0; i < wanted.size(); ++i) {
        const double x = wanted[i], off = x - got[i];
        sum += x, squares += x * x, wrong += off * off;
      }
      const double variance = squares - sum * sum / static_cast<double>(wanted.size());
      const double scale = variance > 1e-9 * squares ? variance : squares;
      ++counted;
      if (scale > 0) kept += 1 - std::min(wrong / scale, 1.0);
      else kept += wrong == 0;
    }
    answers.share.add(kept, counted);
  }

  DataOptions data_;
  std::vector<TensorInfo> inputs_;
  Shapes shapes_;
  Progress progress_;
  std::optional<Labels> labels_;
  vision::Spec spec_;
  std::vector<vision::Transform> transforms_;
  // Known after the first batch.
  std::optional<vision::Head> head_;
  int64_t classes_ = 0, samples_ = 0;
  std::vector<int> label_classes_;
  vision::Transform frame_;  // the input itself, for boxes in its pixels
  std::optional<Engine> floats_;
  Answers reference_;
};

}  // namespace

void JudgeOptions::add_to(CLI::App& app) {
  Flags flags(app, "Search");
  flags
      .add("--max-drop", max_drop,
           "Percentage points that INT8 may lose against FP32: the fastest engine within is taken. Default: 1 of "
           "FP32's boxes, "
           "0.75 of its classes, 0.1 of labels or of other outputs' signal")
      .value("D")
      .between(0.0, 100.0);
  flags
      .add("--objective", objective,
           "latency, or size: INT8 wherever accuracy allows it, faster or not, so that the engine is small. Default: "
           "latency")
      .value("NAME");
  flags
      .add("--eval", eval,
           "Labelled images to lose them on: COCO's JSON, a folder for each class, or JSON or CSV of image and "
           "class; images without labels count as FP32 sees them. Default: --data")
      .value("PATH")
      .reads();
  flags.add("--pareto", pareto, "Write the engines that were measured, with time and metric, as JSON")
      .value("FILE")
      .writes(FileKind::json);
}

namespace {
/// Whether an engine is judged though nobody asked for it: it has data and time, and no limit of another kind.
bool is_judged_unasked(const DataOptions& data, const BuildOptions& build) {
  constexpr int64_t fewest_samples = 10;
  if (data.data.empty() || data.max_error >= 0 || build.budget_seconds == 0) return false;
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
  build.judge = std::make_shared<DataJudge>(*this, samples, model.stated_inputs(), build);
}

}  // namespace tenon::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/data_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/entries.h"
#include "cli/judged_engine.h"
#include "cli/kept_data.h"
#include "cli/labelled_samples.h"
#include "cli/moved_data.h"
#include "cli/noisy_data.h"
#include "cli/output_kind.h"
#include "cli/output_parts.h"
#include "cli/report.h"
#include "cli/vector_kind.h"
#include "engine/engine.h"
#include "metrics/agreement.h"
#include "metrics/bootstrap.h"
#include "metrics/boxes.h"
#include "metrics/outputs.h"
#include "metrics/shift.h"
#include "quant/data_loader.h"
#include "vision/detect.h"
#include "vision/labels.h"
namespace tenon::cli {
namespace {
constexpr double points = 100;          // of a share of 1
constexpr float counted_score = 0.25f;  // as tenon detect's
constexpr float least_score = 0.001f;   // low scores count for average precision
constexpr int quality = 95;             // of JPEG
using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::vector<metrics::Found> plain(const std::vector<vision::Detection>& detections) {
  std::vector<metrics::Found> found;
  for (const vision::Detection& one : detections)
    found.push_back({one.class_id, one.score, {one.box[0], one.box[1], one.box[2], one.box[3]}});
  return found;
}

constexpr Measure of_boxes{3, 1, 8, 0.25}, of_classes{1.5, 0.75, 12, 0.25};
constexpr double most_fall = 0.5;        // of boxes' log-odds on average, whatever the jitter scatters them by
constexpr double labels_drop = 0.1;      // points
constexpr double moved_part = 1. / 28;   // of an image's side, where copies of it vote for its class
constexpr double most_votes_lost = 0.5;  // points
constexpr int64_t fewest_shifts = 10;    // that tell a mean
class DataJudge : public Judge {
 public:
  DataJudge(const std::string& eval, const DataOptions& data, const std::vector<TensorInfo>& inputs,
            const BuildOptions& build)
      : data_(data), inputs_(inputs), shapes_(build.shapes), progress_(build.progress) {
    data_.cache.clear();
    if (eval.empty()) return;
    if (!is_there(eval))
      throw Error(Code::io, "cannot open the data to judge by", {.where = eval, .why = "No such file or directory"});
    if (!holds_labels(eval)) {
      data_.data = {eval};
      data_.options.count = 0;
      return;
    }
    std::vector<std::string> folders;
    for (const std::string& path : data.data)
      if (is_folder(path)) folders.push_back(path);
    labels_ = read_labels(eval, folders);
    spec_ = image_spec(data_, inputs_, shapes_, eval);
  }

  std::string metric() const override {
    if (head_) return labels_ ? "mAP50-95" : "mAP50-95 against fp32's boxes";
    if (classes_ > 0) return labels_ ? "top-1" : "expected top-1 agreement with fp32";
    return parts_.empty() ? metric_of(kind_) : parts_.metric();
  }
  int64_t samples() const override { return samples_; }
  double usual_drop() const override { return labels_ ? labels_drop : limit_.points; }
  std::string limit_reason() const override { return limit_.text; }
  Jitter jitter() const override { return limit_.jitter; }

  double score_cost() const override { return score_cost_; }

  double reference(const Engine& engine) override {
    const auto begin = Clock::now();
    const double value = judge_reference(engine);
    const double seconds = since(begin);
    if (seconds > 0) score_cost_ = std::clamp(worked_ / seconds, 0.01, 1.0);
    return value;
  }

  Score score(const Engine& engine) override {
    Answers answers = ask(engine, "judge", source());
    Score score;
    const auto drop = [&](std::span<const uint32_t> weights) { return drop_of(answers, weights); };
    score.drop = drop({});
    score.value = labels_ ? points * (answers.precision ? answers.precision->value() : answers.share.value())
                          : points - score.drop;
    const metrics::Interval interval = metrics::bootstrap(samples_, drop);
    score.low = interval.low, score.high = interval.high;
    if (samples_ < 2) score.low = -points, score.high = points;  // one sample says nothing of others
    // Where no sample differs, drawing them again shows nothing: the rule of three bounds what they can hide.
    if (classes_ > 0 && answers.classes == reference_.classes)
      score.high = std::max(score.high, std::min(points, 3 * points / static_cast<double>(samples_)));
    if (!labels_) score.objection = objection_to(answers);
    if (classes_ > 0) score.distance = answers.divergence.mean();
    return score;
  }

 private:
  /// What an engine gives for all samples; which parts are used depends on the metric.
  struct Answers : Kept {
    std::vector<std::vector<metrics::Found>> boxes;  // the reference's
    std::vector<int> classes;
    std::vector<std::vector<float>> logits;  // the reference's
    metrics::Agreement agreement;
    metrics::Share votes_lost;
    std::optional<metrics::AveragePrecision> precision;
    OutputParts::Parts parts;
  };

  /// What INT8 may do, for what harmless changes of the images do to the floating point engine's own answers.
  struct Limit {
    double points = 0;
    double spread = 0;  // of the shifts of scores
    std::string text;
    Jitter jitter;
  };

  /// The points that these answers lose against the reference.
  double drop_of(Answers& answers, std::span<const uint32_t> weights) {
    if (answers.precision) return points * (reference_.precision->value(weights) - answers.precision->value(weights));
    if (labels_) return points * (reference_.share.value(weights) - answers.share.value(weights));
    if (classes_ > 0) return points * (1 - answers.agreement.value(weights));
    return points * (parts_.empty() ? answers.lost(weights) : parts_.lost(answers.parts, weights));
  }

  double judge_reference(const Engine& engine) {
    floats_.emplace(engine);
    Answers answers = ask(engine, "judge fp32", source());
    if (samples_ == 0) throw Error(Code::usage, "there is no data to judge by");
    reference_ = std::move(answers);
    if (labels_) return points * (reference_.precision ? reference_.precision->value() : reference_.share.value());
    if (classes_ > 0 && !has_names_)
      if (const auto kind = kind_of_vectors(reference_.logits)) classes_ = 0, kind_ = *kind;
    if (!parts_.empty()) parts_.recognise(), kind_ = parts_.kind();
    measure_jitter();
    if (classes_ > 0 && has_images_) ask_copies();
    return points;
  }

  /// The floating point engine's classes of copies of the images that are moved a little in all four directions.
  void ask_copies() {
    for (const auto& [down, right] : {std::pair{1, 0}, {-1, 0}, {0, 1}, {0, -1}})
      votes_.add(ask(*floats_, "judge copies", moved_data(source(), down * moved_part, right * moved_part)).classes);
  }

  void measure_jitter() {
    const Measure measure = head_ ? of_boxes : classes_ > 0 ? of_classes : measure_of(kind_, has_floats_);
    limit_ = {measure.least, measure.spread, {}, {}};
    if (!has_floats_) {
      // What is next to a token is another word.
      limit_.text = fmt::format("inputs without floats have no jitter; {:g} may always be lost", measure.least);
      if (!parts_.empty()) parts_.limit_by({});
      return;
    }
    const std::shared_ptr<Calibrator> saved = resaved_data(data_, inputs_, shapes_, quality);
    Answers answers = ask(*floats_, "judge jitter", saved ? saved : noisy_data(source()), source());
    const double change = drop_of(answers, {});
    if (!parts_.empty()) parts_.limit_by(answers.parts);
    limit_.jitter = {change, saved ? fmt::format("saving the images as JPEG {} once more", quality)
                                   : "noise in the last bit of the data"};
    const double allowed = std::round(points * measure.times * change) / points;
    limit_.points = std::clamp(allowed, measure.least, measure.most);
    if (answers.shift.count() > 1) limit_.spread = std::max(measure.spread, answers.shift.deviation());
    if (head_) limit_.spread = std::min(limit_.spread, most_fall);
    limit_.text = fmt::format("{} changes fp32's own answers by {:.2f}", limit_.jitter.change, change);
    if (measure.times != 1) limit_.text += fmt::format("; INT8 may change {:g} times that", measure.times);
    if (limit_.points < allowed) limit_.text += fmt::format(", but never more than {:g}", measure.most);
    else if (limit_.points == measure.least) limit_.text += fmt::format("; {:g} may always be lost", measure.least);
  }

  /// Changes of both signs are noise, as nature's are; changes of one sign are not.
  std::string objection_to(const Answers& answers) const {
    if (const std::string lost = lost_votes(answers); !lost.empty()) return lost;
    const auto has_boxes = [](const std::vector<metrics::Found>& found) { return !as_truth(found).empty(); };
    if (head_ && std::none_of(reference_.boxes.begin(), reference_.boxes.end(), has_boxes))
      return "fp32 finds no boxes in the data";
    if (classes_ == 0 && answers.divergence.mean() > most_divergence)
      return fmt::format("tokens' distributions diverge by {:.4f} nats, more than {:g}", answers.divergence.mean(),
                         most_divergence);
    if (answers.shift.count() < fewest_shifts || std::fabs(answers.shift.mean()) <= limit_.spread) return {};
    const char* const others = kind_ == OutputKind::labels ? "labels" : "areas of masks";
    const char* const what = head_ ? "scores" : classes_ > 0 ? "margins" : others;
    return fmt::format("{} {} by {:.2f} on average, more than {:.2f}", what, answers.shift.mean() < 0 ? "fall" : "rise",
                       std::fabs(answers.shift.mean()), limit_.spread);
  }

  /// Changes of class for the worse, beyond doubt.
  std::string lost_votes(const Answers& answers) const {
    if (answers.votes_lost.images() == 0) return {};
    const auto lost = [&](std::span<const uint32_t> weights) { return points * answers.votes_lost.value(weights); };
    const double least = metrics::bootstrap(samples_, lost).low;
    if (least <= most_votes_lost) return {};
    return fmt::format("classes turn from those of moved copies of the images by {:.2f} points, surely more than {:g}",
                       lost({}), most_votes_lost);
  }

  std::shared_ptr<Calibrator> source() { return kept_.samples(); }
  std::shared_ptr<Calibrator> opened() {
    if (labels_) return labelled_samples(*labels_, spec_, transforms_);
    return calibration_data(data_, inputs_, shapes_, false);
  }

  /// `plain`: the samples as the reference had them, where `samples` are others.
  Answers ask(const Engine& engine, const char* stage, const std::shared_ptr<Calibrator>& samples,
              const std::shared_ptr<Calibrator>& plain = nullptr) {
    JudgedEngine runner(engine);
    std::optional<JudgedEngine> other;
    quant::DataLoader loader(runner.graph, *samples, labels_ ? 0 : data_.options.count);
    std::optional<quant::DataLoader> exact;
    if (plain) exact.emplace(runner.graph, *plain, data_.options.count);
    Answers answers;
    int64_t at = 0;
    worked_ = 0;
    for (size_t number = 0; const auto batch = loader.next(); ++number) {
      const auto begin = Clock::now();
      runner.session.run(batch->inputs, runner.outputs);
      if (number == 0 && samples_ == 0) recognise(runner, *batch);
      const bool is_plain = !head_ && classes_ == 0, is_compared = is_plain && samples_ > 0;
      if (is_plain && !is_compared) exact_.of(number, [&] { return runner.outputs; });
      const auto before = exact && is_compared ? exact->next() : std::nullopt;
      const int64_t rows = rows_in(batch->inputs[0]);
      std::vector<Tensor> exact_outputs, outputs = is_plain ? by_sample(runner.outputs, rows) : runner.outputs;
      if (is_compared) {
        const auto run = [&] {
          if (!other) other.emplace(*floats_);
          other->session.run(before ? before->inputs : batch->inputs, other->outputs);
          return other->outputs;
        };
        exact_outputs = by_sample(exact_.of(number, run), rows);
      }
      for (size_t row = 0; row < batch->names.size(); ++row, ++at)
        note(answers, outputs, is_compared ? &exact_outputs : nullptr, static_cast<int64_t>(row), at);
      worked_ += since(begin);
      const double done = loader.expected() > 0 ? static_cast<double>(at) / static_cast<double>(loader.expected()) : 0;
      if (progress_ && !progress_(stage, std::min(done, 1.0), -1)) throw Error(Code::usage, "the build was cancelled");
    }
    samples_ = at;
    return answers;
  }

  /// What the model is, by what it gives for the first batch.
  void recognise(const JudgedEngine& runner, const quant::DataLoader::Batch& batch) {
    const Dims& input = batch.inputs[0].dims();
    const auto metadata = runner.engine.metadata().find("names");
    std::vector<std::string> names;
    if (metadata != runner.engine.metadata().end()) names = vision::labels_from_metadata(metadata->second);
    if (batch.inputs.size() == 1 && input.rank() == 4) {
      const bool last = input[3] == 3 && input[1] != 3;
      frame_.input_width = frame_.source_width = static_cast<int>(input[last ? 2 : 3]);
      frame_.input_height = frame_.source_height = static_cast<int>(input[last ? 1 : 2]);
      std::vector<std::string> outputs;
      for (const TensorInfo& info : runner.engine.outputs()) outputs.push_back(info.name);
      const auto hints = vision::ModelHints::of(runner.engine.metadata(), names.size(), std::move(outputs));
      head_ = vision::recognise(runner.outputs, frame_.input_width, frame_.input_height, hints);
      if (head_ && !labels_ && !gives_scores(runner.outputs)) head_.reset();
    }
    // Several outputs say more than a class.
    if (!head_ && (labels_ || runner.outputs.size() == 1))
      classes_ = classes_in(runner.outputs, rows_in(batch.inputs[0]));
    has_names_ = !names.empty();
    if (classes_ > 0 && !labels_ && !has_names_ && is_embedding(runner.outputs[0])) classes_ = 0;
    kind_ = kind_of(batch.inputs, by_sample(runner.outputs, rows_in(batch.inputs[0])));
    if (!head_ && classes_ == 0 && !labels_)
      parts_.begin(batch.inputs, by_sample(runner.outputs, rows_in(batch.inputs[0])));
    has_images_ = std::any_of(batch.inputs.begin(), batch.inputs.end(), holds_images);
    has_floats_ = std::any_of(batch.inputs.begin(), batch.inputs.end(),
                              [](const Tensor& one) { return one.dtype() == DType::f32; });
    if (!labels_) return;
    const char* const kind = head_          ? "a detector"
                             : classes_ > 0 ? "a classifier"
                                            : "neither a detector nor a classifier";
    if (labels_->boxes ? !head_ : classes_ == 0)
      throw Error(
          Code::usage,
          fmt::format("the labels are {}, and the model is {}", labels_->boxes ? "boxes" : "classes", kind),
          {.where = labels_->where, .hint = "give a folder of images without labels to judge by the outputs of fp32"});
    // The number of classes that some heads have is not in their sizes.
    const bool untold = head_ && head_->classes == 0;
    label_classes_ = tenon::cli::classes_of(*labels_, names, !head_ ? classes_ : untold ? INT32_MAX : head_->classes);
  }

  /// Whether what looks like boxes has scores: other networks give cubes of numbers, too.
  bool gives_scores(const std::vector<Tensor>& outputs) const {
    const vision::DetectOptions how{.confidence = least_score, .boxes_alone = true};
    const auto found = vision::detect(*head_, outputs, 0, frame_, how);
    return std::all_of(found.begin(), found.end(), [](const vision::Detection& one) { return one.score <= 1; });
  }

  void note(Answers& answers, const std::vector<Tensor>& outputs, const std::vector<Tensor>* exact, int64_t row,
            int64_t at) {
    const auto index = static_cast<size_t>(at);
    if (head_) {
      const vision::Transform& transform = labels_ ? transforms_[index] : frame_;
      const vision::DetectOptions how{.confidence = least_score, .boxes_alone = true};
      std::vector<metrics::Found> found = plain(vision::detect(*head_, outputs, row, transform, how));
      if (!answers.precision) answers.precision.emplace();
      if (labels_) {
        answers.precision->add(found, truth_of(index));
        return;
      }
      const std::vector<metrics::Found>& wanted = samples_ > 0 ? reference_.boxes[index] : found;
      answers.precision->add(found, as_truth(wanted));
      if (samples_ > 0) answers.shift.add(wanted, found);
      else answers.boxes.push_back(std::move(found));
    } else if (classes_ > 0) {
      const std::span<const float> scores = row_of(outputs[0], row);
      const auto best = static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin());
      answers.classes.push_back(best);
      if (labels_) {
        answers.share.add(best == label_classes_[labels_->images[index].category], 1);
        return;
      }
      std::vector<float> logits = metrics::logits_of(scores);
      if (samples_ == 0) {
        answers.logits.push_back(std::move(logits));
        return;
      }
      const int wanted = reference_.classes[index];
      const std::vector<float>& exact = reference_.logits[index];
      const double before = metrics::margin(exact, wanted), after = metrics::margin(logits, wanted);
      answers.agreement.add(before, after);
      answers.shift.add(after - before);
      answers.divergence.add(metrics::divergence(exact, logits));
      if (!votes_.empty()) answers.votes_lost.add(votes_.lost(index, wanted, best), 1);
    } else if (exact) {
      if (parts_.empty()) add_kept(kind_, *exact, outputs, row, answers);
      else parts_.add(*exact, outputs, row, answers.parts);
    } else if (!parts_.empty()) {
      parts_.see(outputs, row);
    }
  }

  static std::vector<metrics::Truth> as_truth(const std::vector<metrics::Found>& found) {
    std::vector<metrics::Truth> truth;
    for (const metrics::Found& one : found)
      if (one.score >= counted_score) truth.push_back({one.class_id, one.box});
    return truth;
  }

  std::vector<metrics::Truth> truth_of(size_t source_image) const {
    std::vector<metrics::Truth> truth;
    for (const LabelledBox& box : labels_->images[source_image].boxes)
      truth.push_back({label_classes_[box.category], {box.x0, box.y0, box.x1, box.y1}, box.crowd});
    return truth;
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
  OutputKind kind_ = OutputKind::signal;  // where there is neither a head nor classes
  OutputParts parts_;
  bool has_floats_ = false, has_images_ = false;  // among the inputs
  bool has_names_ = false;                        // of classes
  std::vector<int> label_classes_;
  vision::Transform frame_;  // the input itself, for boxes in its pixels
  std::optional<Engine> floats_;
  Answers reference_;
  metrics::Votes votes_;
  KeptData kept_{[this] { return opened(); }};
  KeptOutputs exact_;  // of the reference, by batch
  Limit limit_;
  double worked_ = 0, score_cost_ = 0.3;  // seconds of the last pass behind its samples; see Judge
};

}  // namespace

std::shared_ptr<Judge> data_judge(const std::string& eval, const DataOptions& data,
                                  const std::vector<TensorInfo>& inputs, const BuildOptions& build) {
  return std::make_shared<DataJudge>(eval, data, inputs, build);
}

}  // namespace tenon::cli

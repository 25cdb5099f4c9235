// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/flags.h"
#include "cli/image_pass.h"
#include "cli/notes.h"
#include "cli/report.h"
#include "cli/verb.h"
#include "vision/detect.h"
#include "vision/draw.h"
#include "vision/labels.h"

namespace tenon::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr double unsure_factor = 2;  // times the score that every class would have alike

struct Options : ImageOptions {
  int top = 5;
};

/// Throws Error(unsupported) where the outputs are not class scores, and says what they are where that can be told.
void require_scores(const ImageModel& model, const std::vector<Tensor>& outputs, const std::string& name) {
  const Tensor& output = outputs.at(0);
  const int64_t batch = model.batch(),
                count = output.dims().rank() > 0 ? output.elements() / std::max<int64_t>(batch, 1) : 0;
  // [N,C], also with axes of one element behind or between.
  const bool flat = std::find(output.dims().begin(), output.dims().end(), count) != output.dims().end();
  if (output.dtype() == DType::f32 && count >= 2 && output.elements() == count * batch && flat) return;
  const bool detector = vision::recognise(outputs, model.spec().width, model.spec().height, model.hints()).has_value();
  throw Error(
      Code::unsupported, detector ? "the model is a detector" : "the output holds no class scores",
      {.where = name,
       .why = fmt::format("its output is {} {}", tenon::name(output.dtype()), output.dims().str()),
       .hint = detector ? "use tenon detect" : "tenon inspect shows the outputs; tenon run gives them as arrays"});
}

/// An image's part of the output as probabilities: as it is where it sums to 1 already, else its softmax.
std::vector<double> probabilities(const Tensor& output, int64_t batch, int64_t slot) {
  const auto count = static_cast<size_t>(output.elements() / batch);
  const auto values = output.values<float>().subspan(static_cast<size_t>(slot) * count, count);
  std::vector<double> scores(values.begin(), values.end());
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  const auto [low, high] = std::minmax_element(scores.begin(), scores.end());
  constexpr double tolerance = 1e-3;
  if (*low >= 0 && std::abs(sum - 1) < tolerance) return scores;
  const double most = *high;
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - most);
  for (double& score : scores) score /= total;
  return scores;
}

/// Numbers of the best classes.
std::vector<size_t> best_of(const std::vector<double>& scores, int top) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto count = std::min(static_cast<size_t>(top), order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](size_t a, size_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  order.resize(count);
  return order;
}

int work(const Options& options) {
  if (options.top < 1) throw Error(Code::usage, "at least one class must be named", {.where = "--top"});
  ImagePass pass(options, "imagenet");
  ImageModel& model = pass.model();
  const bool prints = options.json != "-";
  std::vector<double> scores;
  std::vector<size_t> best;
  bool doubted = false;
  ImageSteps steps;
  steps.read = [&](const SourceImage& source_image, const std::vector<Tensor>& outputs, const vision::Transform&) {
    require_scores(model, outputs, options.model);
    scores = probabilities(outputs.at(0), model.batch(), source_image.slot);
    best = best_of(scores, options.top);
  };
  steps.tell = [&](const SourceImage& source_image, Json& entry) {
    model.tell_doubts(static_cast<int64_t>(scores.size()));
    if (!options.quiet && !doubted && scores[best[0]] < unsure_factor / static_cast<double>(scores.size())) {
      doubted = true;
      warn(fmt::format("{}: the best class has {:.4f}, hardly more than a guess: is --preprocess right?",
                       source_image.path, scores[best[0]]));
    }
    if (prints)
      fmt::print("{}{}\n", printable(source_image.path),
                 source_image.frame < 0 ? "" : fmt::format(" frame {}", source_image.frame));
    entry["top"] = Json::array();
    for (const size_t id : best) {
      const std::string label = vision::label(model.labels(), static_cast<int>(id));
      entry["top"].push_back({{"class", id}, {"label", label}, {"score", scores[id]}});
      if (prints) fmt::print("  {:5} {:.4f}  {}\n", id, scores[id], printable(label));
    }
  };
  steps.draw = [&](SourceImage& source_image) {
    std::vector<std::string> lines;
    for (const size_t id : best)
      lines.push_back(fmt::format("{} {:.2f}", vision::label(model.labels(), static_cast<int>(id)), scores[id]));
    vision::draw_lines(source_image.image, lines);
  };
  pass.run(steps);
  if (!options.json.empty()) {
    Json report = model.facts();
    pass.add_to(report, "classifications");
    write_json(options.json, report);
  }
  return pass.status();
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto options = std::make_shared<Options>();
  options->add_to(app);
  flags.add("-o,--output", options->output_dir, "Folder for the images or the video with the names drawn")
      .value("DIR")
      .fills();
  flags.add("--top", options->top, "Number of classes to name for each image").with_default();
  flags.footer(
      "Examples:\n"
      "  tenon classify resnet50.onnx --source cat.jpg --labels imagenet.txt\n"
      "  tenon classify resnet50.tenon --source images --top 1 --json -");
  return [options] { return work(*options); };
}

const Registrar registrar({4, "classify", "Name what images show", add});

}  // namespace
}  // namespace tenon::cli

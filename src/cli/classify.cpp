// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "cli/flags.h"
#include "cli/gallery.h"
#include "cli/images.h"
#include "cli/notes.h"
#include "cli/rate.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/source.h"
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
  const bool detector =
      vision::recognise(outputs, model.spec().width, model.spec().height, model.hints()).has_value();
  throw Error(
      Code::unsupported, detector ? "the model is a detector" : "the output holds no class scores",
      {.where = name,
       .why = fmt::format("its output is {} {}", tenon::name(output.dtype()), output.dims().str()),
       .hint = detector ? "use tenon detect" : "tenon inspect shows the outputs; tenon run gives them as arrays"});
}

/// The first image's part of the output as probabilities: as it is where it sums to 1 already, else its softmax.
std::vector<double> probabilities(const Tensor& output, int64_t batch) {
  const auto values = output.values<float>().first(static_cast<size_t>(output.elements() / batch));
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

int work(const Options& options) {
  if (options.top < 1) throw Error(Code::usage, "at least one class must be named", {.where = "--top"});
  const Source source(options.source);
  Gallery gallery(options.output_dir, source);
  ImageModel model(options, "imagenet");
  Json list = Json::array();
  Speed speed;
  bool doubted = false;
  Rate rate(source.items(), source.noun(), options.quiet);
  const Seen seen = [&](SourceImage& source_image, const std::vector<Tensor>& outputs, const vision::Transform&) {
    require_scores(model, outputs, options.model);
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<double> scores = probabilities(outputs.at(0), model.batch());
    std::vector<int> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    const auto count = std::min(static_cast<size_t>(options.top), order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](int a, int b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
    source_image.postprocess_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    speed.add(source_image);
    model.tell_doubts(static_cast<int64_t>(scores.size()));
    if (!options.quiet && !doubted && scores[order[0]] < unsure_factor / static_cast<double>(scores.size())) {
      doubted = true;
      warn(fmt::format("{}: the best class has {:.4f}, hardly more than a guess: is --preprocess right?",
                       source_image.path, scores[order[0]]));
    }
    rate.clear();
    Json entry = entry_of(source_image);
    entry["top"] = Json::array();
    if (options.json != "-")
      fmt::print("{}{}\n", printable(source_image.path),
                 source_image.frame < 0 ? "" : fmt::format(" frame {}", source_image.frame));
    std::vector<std::string> lines;
    for (size_t at = 0; at < count; ++at) {
      const std::string label = vision::label(model.labels(), order[at]);
      lines.push_back(fmt::format("{} {:.2f}", label, scores[order[at]]));
      entry["top"].push_back({{"class", order[at]}, {"label", label}, {"score", scores[order[at]]}});
      if (options.json != "-") fmt::print("  {:5} {:.4f}  {}\n", order[at], scores[order[at]], printable(label));
    }
    list.push_back(std::move(entry));
    rate.add();
    if (!gallery.wanted()) return;
    vision::draw_lines(source_image.image, lines);
    gallery.add(source_image);
  };
  const int64_t unreadable = source.for_each([&](SourceImage& source_image) { model.feed(source_image, seen); });
  model.finish(seen);
  gallery.finish();
  rate.clear();
  if (const std::string text = speed.text(); !text.empty() && !options.quiet) note(text, "speed");
  if (!options.json.empty()) {
    Json report = model.facts();
    report["complete"] = interrupted() == 0 && unreadable == 0;
    report["classifications"] = std::move(list);
    write_json(options.json, report);
  }
  if (interrupted() != 0) return interrupted();
  return unreadable > 0 ? static_cast<int>(Code::io) : 0;
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto options = std::make_shared<Options>();
  options->add_to(app);
  flags.add("-o,--output", options->output_dir, "Folder for the images or the video with the names drawn")
      .value("DIR")
      .fills();
  flags.add("--top", options->top, "Classes to name for each image").with_default();
  flags.footer(
      "Examples:\n"
      "  tenon classify resnet50.onnx --source cat.jpg --labels imagenet.txt\n"
      "  tenon classify resnet50.tenon --source images --top 1 --json -");
  return [options] { return work(*options); };
}

const Registrar registrar({4, "classify", "Name what images show", add});

}  // namespace
}  // namespace tenon::cli

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/flags.h"
#include "cli/gallery.h"
#include "cli/images.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/verb.h"
#include "vision/draw.h"
#include "vision/labels.h"

namespace tenon::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options : ImageOptions {
  int top = 5;
};

/// The first image's part of the output as probabilities: as it is where it sums to 1 already, else its softmax.
std::vector<double> probabilities(const Tensor& output, int64_t batch) {
  if (output.dtype() != DType::f32 || output.elements() < 2 * batch || output.elements() % batch != 0)
    throw Error(Code::unsupported, "the output holds no class scores",
                {.hint = "tenon inspect shows the outputs; tenon run gives them as arrays"});
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
  require_source(options.source);
  ImageModel model(options, "imagenet");
  Gallery gallery(options.output_dir, options.source);
  Json list = Json::array();
  const Seen seen = [&](SourceImage& source_image, const std::vector<Tensor>& outputs, const vision::Transform&) {
    const std::vector<double> scores = probabilities(outputs.at(0), model.batch());
    std::vector<int> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    const auto count = std::min(static_cast<size_t>(options.top), order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](int a, int b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
    Json entry = {{"image", source_image.path}};
    if (source_image.frame >= 0) entry["frame"] = source_image.frame;
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
    if (!gallery.wanted()) return;
    vision::draw_lines(source_image.image, lines);
    gallery.add(source_image);
  };
  const int64_t unreadable =
      for_each_image(options.source, [&](SourceImage& source_image) { model.feed(source_image, seen); });
  model.finish(seen);
  gallery.finish();
  if (!options.json.empty()) write_json(options.json, list);
  if (interrupted() != 0) return interrupted();
  return unreadable > 0 ? static_cast<int>(Code::io) : 0;
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto options = std::make_shared<Options>();
  options->add_to(app);
  flags.add("-o,--output", options->output_dir, "Folder for the images or the video with the names drawn")
      .value("DIR");
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

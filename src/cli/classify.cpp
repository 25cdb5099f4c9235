#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/pictures.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/verb.h"
#include "vision/labels.h"

namespace tenon::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options : PictureOptions {
  int top = 5;
};

/// The output as probabilities: as it is where it sums to 1 already, else its softmax.
std::vector<double> probabilities(const Tensor& output) {
  if (output.dtype() != DType::f32 || output.elements() < 2) throw Error(Code::unsupported, "the output holds no class scores");
  const auto values = output.values<float>();
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
  if (options.top < 1) throw Error(Code::usage, "--top needs 1 or more");
  PictureModel model(options, "imagenet");
  Json list = Json::array();
  const int64_t unreadable = for_each_picture(options.source, [&](Picture& picture) {
    vision::Transform transform;
    const std::vector<double> scores = probabilities(model.run(picture.image, transform).at(0));
    std::vector<int> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    const auto count = std::min(static_cast<size_t>(options.top), order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](int a, int b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
    Json entry = {{"image", picture.path}};
    if (picture.frame >= 0) entry["frame"] = picture.frame;
    entry["top"] = Json::array();
    if (options.json != "-") fmt::print("{}{}\n", printable(picture.path), picture.frame < 0 ? "" : fmt::format(" frame {}", picture.frame));
    for (size_t at = 0; at < count; ++at) {
      const std::string label = vision::label(model.labels(), order[at]);
      entry["top"].push_back({{"class", order[at]}, {"label", label}, {"score", scores[order[at]]}});
      if (options.json != "-") fmt::print("  {:5} {:.4f}  {}\n", order[at], scores[order[at]], printable(label));
    }
    list.push_back(std::move(entry));
  });
  if (!options.json.empty()) write_json(options.json, list);
  if (interrupted() != 0) return interrupted();
  return unreadable > 0 ? static_cast<int>(Code::io) : 0;
}

std::function<int()> add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->add_to(app);
  app.add_option("--top", options->top, "Classes to name for each picture")->capture_default_str();
  app.footer(
      "Examples:\n"
      "  tenon classify resnet50.onnx --source cat.jpg --labels imagenet.txt\n"
      "  tenon classify resnet50.tenon --source pictures --top 1 --json -");
  return [options] { return work(*options); };
}

const Registrar registrar({4, "classify", "Name what pictures show", add});

}  // namespace
}  // namespace tenon::cli

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "cli/flags.h"
#include "cli/image_pass.h"
#include "cli/notes.h"
#include "cli/print.h"
#include "cli/report.h"
#include "cli/verb.h"
#include "vision/detect.h"
#include "vision/draw.h"
#include "vision/labels.h"
#include "vision/segment.h"

namespace tenon::cli::classify_verb {
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
  // [N,C], also with axes of one element behind or between. Of several outputs [N,A,1] is a list of candidates.
  const bool flat = std::find(output.dims().begin(), output.dims().end(), count) != output.dims().end() &&
                    (outputs.size() == 1 || output.dims().rank() != 3);
  if (output.dtype() == DType::f32 && count >= 2 && output.elements() == count * batch && flat) return;
  const int width = model.spec().width, height = model.spec().height;
  const bool detector = model.head_of(outputs).has_value();
  const bool map = !detector && vision::recognise_map(outputs, width, height, model.hints()).has_value();
  throw Error(Code::unsupported,
              detector ? "the model is a detector"
              : map    ? "the model gives a class for each pixel"
                       : "the output holds no class scores",
              {.where = name,
               .why = fmt::format("its {} {} {}", outputs.size() == 1 ? "output is" : "first output is",
                                  tenon::name(output.dtype()), output.dims().str()),
               .hint = detector ? "use tenon detect"
                       : map    ? "use tenon segment"
                                : "tenon inspect shows the outputs; tenon run gives them as arrays"});
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

/// What is said where a guessed preprocessing gives most images of many one class, as wrong scales do; "" for nothing.
std::string one_class_for_all(const std::map<size_t, int64_t>& firsts, const ImageModel& model) {
  constexpr int64_t fewest = 20;
  constexpr double most = 0.6;
  int64_t images = 0;
  auto top = firsts.begin();
  for (auto each = firsts.begin(); each != firsts.end(); ++each) {
    images += each->second;
    if (each->second > top->second) top = each;
  }
  if (images < fewest || static_cast<double>(top->second) < most * static_cast<double>(images)) return "";
  return fmt::format(
      "{} of {} images are given one class, {}: where they show different things, the guess \"imagenet\" is wrong; try "
      "--preprocess center_crop,scale=1 (values 0 to 255), center_crop,scale=1,colour=bgr or center_crop (0 to 1)",
      top->second, images, vision::label(model.labels(), static_cast<int>(top->first)));
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
  std::map<size_t, int64_t> firsts;  // how many images have a class as their best
  ImageSteps steps;
  steps.read = [&](const SourceImage& source_image, const std::vector<Tensor>& outputs, const vision::Transform&) {
    require_scores(model, outputs, options.model);
    scores = probabilities(outputs.at(0), model.batch(), source_image.slot);
    best = best_of(scores, options.top);
    ++firsts[best[0]];
  };
  steps.tell = [&](const SourceImage& source_image, Json& entry) {
    model.tell_doubts(static_cast<int64_t>(scores.size()));
    if (!options.quiet && !doubted && scores[best[0]] < unsure_factor / static_cast<double>(scores.size())) {
      doubted = true;
      warn(fmt::format("{}: the best class has {:.4f}, hardly more than a guess: is --preprocess right?",
                       source_image.path, scores[best[0]]));
    }
    if (prints)
      print_out("{}{}\n", printable(source_image.path),
                source_image.frame < 0 ? "" : fmt::format(" frame {}", source_image.frame));
    entry["top"] = Json::array();
    for (const size_t id : best) {
      const std::string label = vision::label(model.labels(), static_cast<int>(id));
      entry["top"].push_back({{"class", id}, {"label", label}, {"score", scores[id]}});
      if (prints) print_out("  {:5} {:.4f}  {}\n", id, scores[id], printable(label));
    }
  };
  steps.draw = [&](SourceImage& source_image) {
    std::vector<std::string> lines;
    for (const size_t id : best)
      lines.push_back(fmt::format("{} {:.2f}", vision::label(model.labels(), static_cast<int>(id)), scores[id]));
    vision::draw_lines(source_image.image, lines);
  };
  pass.run(steps);
  if (model.uses_preset())
    if (const std::string line = one_class_for_all(firsts, model); !line.empty()) model.suspect(line);
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
}  // namespace tenon::cli::classify_verb

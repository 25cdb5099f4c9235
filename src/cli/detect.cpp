// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"
#include "vision/detect.h"

#include <fmt/format.h>

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
  vision::DetectOptions detect;
};

Json to_json(const std::vector<vision::Detection>& found, const std::vector<std::string>& labels) {
  Json list = Json::array();
  for (const vision::Detection& one : found)
    list.push_back({{"class", one.class_id},
                    {"label", vision::label(labels, one.class_id)},
                    {"score", one.score},
                    {"box", one.box}});
  return list;
}

void check(const vision::DetectOptions& options) {
  const auto fraction = [](float value, const char* where) {
    if (!(value >= 0 && value <= 1))
      throw Error(Code::usage, fmt::format("{} is not between 0 and 1", value), {.where = where});
  };
  fraction(options.confidence, "--conf");
  fraction(options.iou, "--iou");
  if (options.max_detections < 1) throw Error(Code::usage, "at least one box must be allowed", {.where = "--max-det"});
}

void print(const SourceImage& source_image, const std::vector<vision::Detection>& found,
           const std::vector<std::string>& labels) {
  fmt::print("{}: {}\n", printable(source_image.path), counted(static_cast<int64_t>(found.size()), "object"));
  for (const vision::Detection& one : found)
    fmt::print("  {:<16} {:.3f}  {:.1f} {:.1f} {:.1f} {:.1f}\n", printable(vision::label(labels, one.class_id)),
               one.score, one.box[0], one.box[1], one.box[2], one.box[3]);
}

vision::Head recognised(const ImageModel& model, const std::vector<Tensor>& outputs, const std::string& name) {
  const auto head = vision::recognise(outputs, model.spec().width, model.spec().height, model.labels().size());
  if (!head)
    throw Error(Code::unsupported, "the outputs are not those of a known detector",
                {.where = name, .hint = "tenon inspect shows them; tenon run gives them as arrays"});
  return *head;
}

int work(const Options& options) {
  check(options.detect);
  require_source(options.source);
  ImageModel model(options, "yolo");
  Gallery gallery(options.output_dir, options.source);
  std::optional<vision::Head> head;
  Json list = Json::array();
  int64_t boxes = 0;
  const Seen seen = [&](SourceImage& source_image, const std::vector<Tensor>& outputs,
                        const vision::Transform& transform) {
    const std::vector<vision::Detection> found = vision::detect(*head, outputs, 0, transform, options.detect);
    boxes += static_cast<int64_t>(found.size());
    Json entry = {{"image", source_image.path}};
    if (source_image.frame >= 0) entry["frame"] = source_image.frame;
    entry["detections"] = to_json(found, model.labels());
    if (options.json != "-" && source_image.frame < 0) print(source_image, found, model.labels());
    list.push_back(std::move(entry));
    if (!gallery.wanted()) return;
    vision::draw_detections(source_image.image, found, model.labels());
    gallery.add(source_image);
  };
  const int64_t unreadable = for_each_image(options.source, [&](SourceImage& source_image) {
    if (head) return model.feed(source_image, seen);
    vision::Transform transform;
    const std::vector<Tensor>* outputs = &model.run(source_image.image, transform);
    head = recognised(model, *outputs, options.model);
    if (head->kind == vision::HeadKind::yolox && model.uses_preset()) {
      model.prepare_as("yolox");
      outputs = &model.run(source_image.image, transform);
    }
    seen(source_image, *outputs, transform);
  });
  model.finish(seen);
  gallery.finish();
  if (!options.json.empty()) write_json(options.json, list);
  if (options.json != "-")
    fmt::print("{} in {}{}\n", counted(boxes, "object"),
               counted(static_cast<int64_t>(list.size()), frame_rate(options.source) > 0 ? "frame" : "image"),
               unreadable > 0 ? fmt::format(", {} unreadable", unreadable) : "");
  if (interrupted() != 0) return interrupted();
  return unreadable > 0 ? static_cast<int>(Code::io) : 0;
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto options = std::make_shared<Options>();
  options->add_to(app);
  flags.add("-o,--output", options->output_dir, "Folder for the images or the video with boxes drawn").value("DIR");
  flags.add("--conf", options->detect.confidence, "Least score of a box").with_default();
  flags.add("--iou", options->detect.iou, "Overlap above which the weaker box of a class falls").with_default();
  flags.add("--max-det", options->detect.max_detections, "Most boxes of an image").with_default();
  flags.footer(
      "Boxes are x1 y1 x2 y2 in pixels of the source. YOLOv5 to v11, YOLOX, YOLOv10 and UltraFace outputs are known.\n"
      "Examples:\n"
      "  tenon detect yolov8n.onnx --source street.jpg -o out\n"
      "  tenon detect yolov8n.tenon --source clip.mp4 -o out --json boxes.json");
  return [options] { return work(*options); };
}

const Registrar registrar({3, "detect", "Find objects in images or a video", add});

}  // namespace
}  // namespace tenon::cli

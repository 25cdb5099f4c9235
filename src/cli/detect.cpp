#include "vision/detect.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli/pictures.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/verb.h"
#include "vision/decode.h"
#include "vision/draw.h"
#include "vision/labels.h"
#include "vision/video.h"

namespace fs = std::filesystem;

namespace tenon::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options : PictureOptions {
  vision::DetectOptions detect;
};

Json to_json(const std::vector<vision::Detection>& found, const std::vector<std::string>& labels) {
  Json list = Json::array();
  for (const vision::Detection& one : found)
    list.push_back({{"class", one.class_id}, {"label", vision::label(labels, one.class_id)}, {"score", one.score}, {"box", one.box}});
  return list;
}

/// Writes pictures beside each other under their own names, and a video as one file.
class Gallery {
 public:
  Gallery(const std::string& folder, const std::string& source) : folder_(folder) {
    if (folder.empty()) return;
    fs::create_directories(folder);
    fps_ = frame_rate(source);
  }
  void add(Picture& picture, const std::vector<vision::Detection>& found, const std::vector<std::string>& labels) {
    if (folder_.empty()) return;
    vision::draw_detections(picture.image, found, labels);
    const fs::path source(picture.path);
    if (picture.frame < 0) return vision::encode_image(picture.image, (folder_ / source.filename()).string());
    if (!video_)
      video_.emplace((folder_ / source.stem()).string() + ".mp4", picture.image.width, picture.image.height, fps_);
    video_->add(picture.image);
  }
  void finish() {
    if (video_) video_->finish();
  }

 private:
  fs::path folder_;
  double fps_ = 0;
  std::optional<vision::VideoWriter> video_;
};

int work(const Options& options) {
  PictureModel model(options, "yolo");
  Gallery gallery(options.output_dir, options.source);
  std::optional<vision::Head> head;
  Json list = Json::array();
  int64_t boxes = 0;
  const int64_t unreadable = for_each_picture(options.source, [&](Picture& picture) {
    vision::Transform transform;
    const std::vector<Tensor>* outputs = &model.run(picture.image, transform);
    if (!head) {
      head = vision::recognise(*outputs, model.spec().width, model.spec().height, model.labels().size());
      if (!head)
        throw Error(Code::unsupported, "the outputs are not those of a known detector",
                    {.where = options.model, .hint = "tenon inspect shows them; tenon run gives them as arrays"});
      if (head->kind == vision::HeadKind::yolox && options.preprocess.empty()) {
        model.prepare_as("yolox");
        outputs = &model.run(picture.image, transform);
      }
    }
    const std::vector<vision::Detection> found = vision::detect(*head, *outputs, 0, transform, options.detect);
    boxes += static_cast<int64_t>(found.size());
    Json entry = {{"image", picture.path}};
    if (picture.frame >= 0) entry["frame"] = picture.frame;
    entry["detections"] = to_json(found, model.labels());
    if (options.json != "-" && picture.frame < 0) {
      fmt::print("{}: {} object{}\n", printable(picture.path), found.size(), found.size() == 1 ? "" : "s");
      for (const vision::Detection& one : found)
        fmt::print("  {:<16} {:.3f}  {:.1f} {:.1f} {:.1f} {:.1f}\n", printable(vision::label(model.labels(), one.class_id)), one.score, one.box[0], one.box[1],
                   one.box[2], one.box[3]);
    }
    list.push_back(std::move(entry));
    gallery.add(picture, found, model.labels());
  });
  gallery.finish();
  if (!options.json.empty()) write_json(options.json, list);
  if (options.json != "-") fmt::print("{} objects in {} pictures{}\n", boxes, list.size(), unreadable > 0 ? fmt::format(", {} unreadable", unreadable) : "");
  if (interrupted() != 0) return interrupted();
  return unreadable > 0 ? static_cast<int>(Code::io) : 0;
}

std::function<int()> add(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->add_to(app);
  app.add_option("-o,--output", options->output_dir, "Folder for the pictures or the video with boxes drawn")->type_name("DIR");
  app.add_option("--conf", options->detect.confidence, "Least score of a box")->capture_default_str();
  app.add_option("--iou", options->detect.iou, "Overlap above which the weaker box of a class falls")->capture_default_str();
  app.add_option("--max-det", options->detect.max_detections, "Most boxes of a picture")->capture_default_str();
  app.footer(
      "Boxes are x1 y1 x2 y2 in pixels of the source. YOLOv5 to v11, YOLOX, YOLOv10 and UltraFace outputs are known.\n"
      "Examples:\n"
      "  tenon detect yolov8n.onnx --source street.jpg -o out\n"
      "  tenon detect yolov8n.tenon --source clip.mp4 -o out --json boxes.json");
  return [options] { return work(*options); };
}

const Registrar registrar({3, "detect", "Find objects in pictures or a video", add});

}  // namespace
}  // namespace tenon::cli

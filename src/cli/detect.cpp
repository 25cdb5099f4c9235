// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"
#include "vision/detect.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/nearest.h"
#include "cli/crops.h"
#include "cli/formats.h"
#include "cli/found.h"
#include "cli/image_pass.h"
#include "cli/notes.h"
#include "cli/print.h"
#include "cli/report.h"
#include "cli/verb.h"
#include "vision/draw.h"
#include "vision/labels.h"

namespace tenon::cli::detect_verb {
namespace {

using Json = nlohmann::ordered_json;

struct Options : ImageOptions {
  vision::DetectOptions detect;
  std::string classes, format = "text";
  int stride = 1;
  bool save_txt = false, save_crop = false;
};

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
  print_out("{}: {}\n", printable(source_image.path), counted(static_cast<int64_t>(found.size()), "object"));
  for (const vision::Detection& one : found) write_out(to_text(one, labels));
}

/// Numbers or names with commas between them, as class numbers. Throws Error(usage).
std::vector<int> classes_of(const std::string& text, const std::vector<std::string>& labels) {
  std::vector<int> classes;
  for (size_t begin = 0; begin < text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, comma - begin);
    begin = comma + 1;
    int number = -1;
    const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (fault != std::errc() || end != word.data() + word.size()) {
      const auto named = std::find(labels.begin(), labels.end(), word);
      if (named == labels.end()) {
        const std::string near = nearest(word, labels);
        throw Error(Code::usage, "no class is called \"" + word + "\"",
                    {.where = "--classes",
                     .hint = near.empty() ? "give numbers, or names as --labels or the model has "
                                            "them, with commas between them"
                                          : "did you mean \"" + near + "\"?"});
      }
      number = static_cast<int>(named - labels.begin());
    }
    if (number < 0) throw Error(Code::usage, "a class is negative", {.where = "--classes " + text});
    classes.push_back(number);
  }
  return classes;
}

/// Throws Error(usage) for a class that the model does not have, where its outputs tell how many there are.
void require_classes(const std::vector<int>& classes, int64_t count) {
  for (const int number : classes)
    if (count > 0 && number >= count)
      throw Error(Code::usage, fmt::format("there is no class {}", number),
                  {.where = "--classes",
                   .why = "the model has " + counted(count, "class"),
                   .hint = fmt::format("give 0 to {}", count - 1)});
}

/// What outputs without boxes look like; "" where they look like nothing known.
std::string other_kind(const std::vector<Tensor>& outputs) {
  const Dims& dims = outputs[0].dims();
  if (dims.rank() == 2 || (dims.rank() == 4 && dims[2] == 1 && dims[3] == 1)) return "a classifier";
  if (dims.rank() == 4 && dims[2] > 1 && dims[3] > 1) return "a network for semantic segmentation or other maps";
  return "";
}

vision::Head recognised(const ImageModel& model, const std::vector<Tensor>& outputs, const std::string& name) {
  if (const auto head = model.head_of(outputs)) return *head;
  const std::string kind = outputs.empty() ? "" : other_kind(outputs);
  throw Error(Code::unsupported, "the outputs are not those of a known detector",
              {.where = name,
               .why = kind.empty() ? "" : "they look like those of " + kind,
               .hint = kind == "a classifier" ? "use tenon classify"
                       : !kind.empty()        ? "use tenon segment"
                                              : "tenon inspect shows them; tenon run gives them as arrays"});
}

/// Checks what can be told before anything is read. Throws Error(usage).
void check(Options& options) {
  check(options.detect);
  if (options.stride < 1) throw Error(Code::usage, "a stride is at least 1", {.where = "--vid-stride"});
  const bool as_yolo = options.format == "yolo";
  check_format(options.format, {"text", "json", "csv", "coco", "yolo"}, options.format != "text" && !as_yolo,
               options.json);
  if ((options.save_txt || options.save_crop || as_yolo) && options.output_dir.empty())
    throw Error(Code::usage, "there is no folder for the results",
                {.where = as_yolo            ? "--format yolo"
                          : options.save_txt ? "--save-txt"
                                             : "--save-crop",
                 .hint = "give -o DIR"});
  if (as_yolo) options.save_txt = true, options.format = "text";
}

/// The report but for what was found.
Json report_of(const ImageModel& model, const Options& options, const std::optional<vision::Head>& head) {
  Json report = model.facts();
  report["settings"] = {{"confidence", options.detect.confidence},
                        {"iou", options.detect.iou},
                        {"max_detections", options.detect.max_detections},
                        {"agnostic_nms", options.detect.agnostic},
                        {"classes", options.detect.classes},
                        {"vid_stride", options.stride}};
  if (head) add_head(report, *head);
  else report["head"] = nullptr;
  return report;
}

int work(Options& options) {
  check(options);
  ImagePass pass(options, "yolo", options.stride);
  ImageModel& model = pass.model();
  options.detect.classes = classes_of(options.classes, model.labels());
  const Crops crops(options.output_dir, options.save_txt, options.save_crop, pass.source());
  std::optional<vision::Head> head;
  std::vector<vision::Detection> found;
  const bool prints = options.json != "-" && options.format == "text";
  int64_t boxes = 0;
  ImageSteps steps;
  steps.read = [&](const SourceImage& source_image, const std::vector<Tensor>& outputs,
                   const vision::Transform& transform) {
    if (!head) {
      head = recognised(model, outputs, options.model);
      require_classes(options.detect.classes, head->classes);
      if (!options.quiet) note("the outputs are read as " + vision::describe(*head));
      if (head->kind == vision::HeadKind::yolox && model.uses_preset()) model.prepare_as("yolox");
      model.tell_doubts(head->classes);
    }
    found = vision::detect(*head, outputs, source_image.slot, transform, options.detect);
    boxes += static_cast<int64_t>(found.size());
  };
  steps.tell = [&](const SourceImage& source_image, Json& entry) {
    entry["detections"] = to_json(found, model.labels(), source_image.image.width, source_image.image.height);
    if (prints && source_image.frame < 0) print(source_image, found, model.labels());
  };
  steps.draw = [&](SourceImage& source_image) {
    crops.add(source_image, found, head->task, model.labels());
    vision::draw_detections(source_image.image, found, model.labels());
  };
  pass.run(steps);
  Json report = report_of(model, options, head);
  pass.add_to(report, "detections");
  write_report(
      options.json, options.format, report, [&] { return as_coco(report["detections"], model.labels()); },
      [&] { return as_csv(report["detections"], head ? head->task : vision::Task::detect, head ? head->points : 0); });
  if (prints) print_out("{} in {}\n", counted(boxes, "object"), pass.counts());
  return pass.status();
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto options = std::make_shared<Options>();
  options->add_to(app);
  flags.add("-o,--output", options->output_dir, "Folder for the images or the video with boxes drawn")
      .value("DIR")
      .fills();
  flags.add("--conf", options->detect.confidence, "Minimum score of a box, 0 to 1").with_default();
  flags
      .add("--iou", options->detect.iou,
           "NMS: overlap (IoU, 0 to 1) above which the weaker of two boxes of a class is dropped")
      .with_default();
  flags.add("--max-det", options->detect.max_detections, "Maximum number of boxes per image").with_default();
  flags.add("--classes", options->classes, "Only these classes, by number or name: 0,2 or person,car").value("LIST");
  flags.add("--agnostic-nms", options->detect.agnostic, "NMS over all classes together, not within each class");
  flags.add("--vid-stride", options->stride, "Use every Nth frame of a video").value("N").with_default();
  flags
      .add("--format", options->format,
           "What goes to the standard output: text, json (the report), csv, coco (its result entries), or yolo (as "
           "--save-txt)")
      .value("FORMAT")
      .one_of({"text", "json", "csv", "coco", "yolo"})
      .with_default();
  flags.add(
      "--save-txt", options->save_txt,
      "Also write DIR/labels/NAME.txt, in YOLO format: class, centre and size (and key points), a mask's outline or "
      "four corners, and score");
  flags.add("--save-crop", options->save_crop, "Also write each object as an image: DIR/crops/CLASS/NAME_N.jpg");
  flags.footer(
      "Boxes are x1 y1 x2 y2 in pixels of the source. Known are the outputs of YOLOv5 to v11 with their masks, key\n"
      "points and oriented boxes, YOLOX, YOLOv10, UltraFace, DETR, RT-DETR, and boxes, labels and scores as\n"
      "torchvision gives them.\n"
      "Examples:\n"
      "  tenon detect yolov8n.onnx --source street.jpg -o out\n"
      "  tenon detect yolov8n.tenon --source clip.mp4 -o out --json boxes.json\n"
      "  tenon detect yolov8n.tenon --source 'images/*.jpg' --batch-size 8 --format coco > results.json");
  return [options] { return work(*options); };
}

const Registrar registrar({3, "detect", "Find objects in images or a video", add});

}  // namespace
}  // namespace tenon::cli::detect_verb

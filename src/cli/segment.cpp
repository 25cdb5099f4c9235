// SPDX-License-Identifier: Apache-2.0
#include "vision/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>

#include "base/entries.h"
#include "base/file.h"
#include "cli/flags.h"
#include "cli/formats.h"
#include "cli/gallery.h"
#include "cli/images.h"
#include "cli/notes.h"
#include "cli/paths.h"
#include "cli/rate.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/source.h"
#include "cli/verb.h"
#include "vision/draw.h"
#include "vision/labels.h"
#include "vision/mask.h"
#include "vision/png.h"

namespace fs = std::filesystem;

namespace tenon::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options : ImageOptions {
  std::string format = "text";
  bool save_masks = false;
};

/// A class and its pixels in an image.
struct Part {
  int class_id;
  int64_t pixels;
  double share;
  std::string label;
};

/// The classes of a map, largest first.
std::vector<Part> parts_of(const vision::ClassMap& map, const std::vector<std::string>& labels) {
  const std::vector<int64_t> pixels = vision::pixels_of_classes(map);
  std::vector<Part> parts;
  for (size_t id = 0; id < pixels.size(); ++id)
    if (pixels[id] > 0)
      parts.push_back({static_cast<int>(id), pixels[id],
                       static_cast<double>(pixels[id]) / static_cast<double>(map.classes.size()),
                       vision::label(labels, static_cast<int>(id))});
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.pixels > b.pixels; });
  return parts;
}

vision::MapHead recognised(const ImageModel& model, const std::vector<Tensor>& outputs, const std::string& name) {
  const int width = model.spec().width, height = model.spec().height;
  if (const auto head = vision::recognise_map(outputs, width, height, model.hints())) return *head;
  const bool detector = vision::recognise(outputs, width, height, model.hints()).has_value();
  const Dims dims = outputs.empty() ? Dims() : outputs[0].dims();
  const bool classifier = !detector && (dims.rank() == 2 || (dims.rank() == 4 && dims[2] == 1 && dims[3] == 1));
  throw Error(Code::unsupported, "the outputs tell no class for each pixel",
              {.where = name,
               .why = detector     ? "they are those of a detector"
                      : classifier ? "they look like those of a classifier"
                                   : "",
               .hint = detector     ? "use tenon detect"
                       : classifier ? "use tenon classify"
                                    : "tenon inspect shows them; tenon run gives them as arrays"});
}

void check(const Options& options) {
  const std::string_view known[] = {"text", "json", "csv", "coco"};
  if (std::find(std::begin(known), std::end(known), options.format) == std::end(known))
    throw Error(Code::usage, "unknown format",
                {.where = "--format " + options.format, .hint = "one of text, json, csv, coco"});
  if (options.json == "-" && options.format != "text")
    throw Error(Code::usage, "two outputs would go to the standard output",
                {.where = "--format " + options.format, .hint = "give --json a file"});
  if (options.save_masks && options.output_dir.empty())
    throw Error(Code::usage, "there is no folder for the results", {.where = "--save-masks", .hint = "give -o DIR"});
}

/// Ground that keeps its own colours.
int bare_class(const std::vector<std::string>& labels) {
  for (size_t id = 0; id < labels.size(); ++id)
    if (labels[id] == "background" || labels[id] == "__background__") return static_cast<int>(id);
  return -1;
}

void draw(vision::Image& image, const vision::ClassMap& map, const std::vector<Part>& parts, int bare) {
  vision::draw_classes(image, map, bare);
  std::vector<vision::LegendLine> lines;
  for (const Part& part : parts)
    if (part.class_id != bare)
      lines.push_back({vision::class_colour(part.class_id), fmt::format("{} {:.1f}%", part.label, part.share * 100)});
  vision::draw_legend(image, lines);
}

void save_mask(const std::string& folder, const SourceImage& source_image, const vision::ClassMap& map) {
  const std::string stem = fs::path(source_image.path).stem().string();
  const std::string file = source_image.frame < 0 ? stem : fmt::format("{}_{}", stem, source_image.frame);
  const std::string path = (fs::path(folder) / "masks" / (file + ".png")).string();
  paths().write("--save-masks", path);
  write_atomically(path,
                   std::as_bytes(std::span<const uint8_t>(vision::grey_png_bytes(map.classes, map.width, map.height))));
}

void print(const SourceImage& source_image, const std::vector<Part>& parts) {
  fmt::print("{}: {}\n", printable(source_image.path),
             parts.size() == 1 ? "1 class" : fmt::format("{} classes", parts.size()));
  for (const Part& part : parts) fmt::print("  {:<16} {:5.1f} %\n", printable(part.label), part.share * 100);
}

Json to_json(const vision::ClassMap& map, const std::vector<Part>& parts) {
  Json list = Json::array();
  for (const Part& part : parts)
    list.push_back({{"class", part.class_id},
                    {"label", part.label},
                    {"pixels", part.pixels},
                    {"share", part.share},
                    {"mask",
                     {{"size", {map.height, map.width}},
                      {"counts", vision::run_lengths(vision::mask_of(map, part.class_id), map.width, map.height)}}}});
  return list;
}

void write(const Options& options, const ImageModel& model, const Json& report) {
  if (!options.json.empty()) write_json(options.json, report);
  if (options.format == "json") write_json("-", report);
  else if (options.format == "coco") write_json("-", segments_as_coco(report["segmentations"], model.labels()));
  else if (options.format == "csv") {
    const std::string text = segments_as_csv(report["segmentations"]);
    write_bytes("-", std::as_bytes(std::span(text)));
  }
}

int work(const Options& options) {
  check(options);
  const Source source(options.source);
  Gallery gallery(options.output_dir, source);
  ImageModel model(options, "imagenet_resize");
  if (options.save_masks) make_folder((fs::path(options.output_dir) / "masks").string());
  const bool prints = options.json != "-" && options.format == "text";
  std::optional<vision::MapHead> head;
  Json list = Json::array();
  Speed speed;
  Rate rate(source.items(), source.noun(), options.quiet);
  const Seen seen = [&](SourceImage& source_image, const std::vector<Tensor>& outputs,
                        const vision::Transform& transform) {
    const auto begin = std::chrono::steady_clock::now();
    if (!head) {
      head = recognised(model, outputs, options.model);
      if (!options.quiet) note(fmt::format("the output is read as {} of each pixel", vision::name(head->kind)));
      model.tell_doubts(head->classes);
    }
    const vision::ClassMap map = vision::segment(*head, outputs, 0, transform);
    const std::vector<Part> parts = parts_of(map, model.labels());
    source_image.postprocess_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    speed.add(source_image);
    rate.clear();
    if (prints && source_image.frame < 0) print(source_image, parts);
    Json entry = entry_of(source_image);
    entry["classes"] = to_json(map, parts);
    list.push_back(std::move(entry));
    rate.add();
    if (!gallery.wanted()) return;
    if (options.save_masks) save_mask(options.output_dir, source_image, map);
    draw(source_image.image, map, parts, bare_class(model.labels()));
    gallery.add(source_image);
  };
  const int64_t unreadable = source.for_each([&](SourceImage& source_image) { model.feed(source_image, seen); });
  model.finish(seen);
  gallery.finish();
  rate.clear();
  if (const std::string text = speed.text(); !text.empty() && !options.quiet) note(text, "speed");
  Json report = model.facts();
  report["head"] = head ? Json(vision::name(head->kind)) : Json();
  report["complete"] = interrupted() == 0 && unreadable == 0;
  report["segmentations"] = std::move(list);
  write(options, model, report);
  if (interrupted() != 0) return interrupted();
  return unreadable > 0 ? static_cast<int>(Code::io) : 0;
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto options = std::make_shared<Options>();
  options->add_to(app);
  flags.add("-o,--output", options->output_dir, "Folder for the images or the video, coloured by class, with a legend")
      .value("DIR")
      .fills();
  flags
      .add("--format", options->format,
           "What goes to the standard output: text, json (the report), csv, or coco (result entries with masks)")
      .value("FORMAT")
      .with_default();
  flags.add("--save-masks", options->save_masks, "In -o, also DIR/masks/NAME.png: the class of each pixel, in grey");
  flags.footer(
      "Outputs may be scores of each class for each pixel, in any size, one score for each pixel, or classes.\n"
      "Examples:\n"
      "  tenon segment deeplab.onnx --source street.jpg --labels voc.txt -o out\n"
      "  tenon segment segformer.tenon --source clip.mp4 -o out --save-masks");
  return [options] { return work(*options); };
}

const Registrar registrar({4, "segment", "Name what each pixel shows", add});

}  // namespace
}  // namespace tenon::cli

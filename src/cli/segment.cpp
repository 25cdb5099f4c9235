// SPDX-License-Identifier: Apache-2.0
#include "vision/segment.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/entries.h"
#include "base/file.h"
#include "cli/crops.h"
#include "cli/flags.h"
#include "cli/formats.h"
#include "cli/image_pass.h"
#include "cli/notes.h"
#include "cli/paths.h"
#include "cli/print.h"
#include "cli/report.h"
#include "cli/verb.h"
#include "vision/labels.h"
#include "vision/mask.h"
#include "vision/png.h"

namespace fs = std::filesystem;

namespace tenon::cli::segment_verb {
namespace {

using Json = nlohmann::ordered_json;

struct Options : ImageOptions {
  std::string format = "text";
  bool save_masks = false;
};

vision::MapHead recognised(const ImageModel& model, const std::vector<Tensor>& outputs, const std::string& name) {
  const int width = model.spec().width, height = model.spec().height;
  if (const auto head = vision::recognise_map(outputs, width, height, model.hints())) return *head;
  const bool detector = model.head_of(outputs).has_value();
  const Dims dims = outputs.empty() ? Dims() : outputs[0].dims();
  const bool classifier = !detector && (dims.rank() == 2 || (dims.rank() == 4 && dims[2] == 1 && dims[3] == 1));
  throw Error(Code::unsupported, "the outputs do not give a class for each pixel",
              {.where = name,
               .why = detector     ? "they are those of a detector"
                      : classifier ? "they look like those of a classifier"
                                   : "",
               .hint = detector     ? "use tenon detect"
                       : classifier ? "use tenon classify"
                                    : "tenon inspect shows them; tenon run gives them as arrays"});
}

void check(const Options& options) {
  check_format(options.format, {"text", "json", "csv", "coco"}, options.format != "text", options.json);
  if (options.save_masks && options.output_dir.empty())
    throw Error(Code::usage, "there is no folder for the results", {.where = "--save-masks", .hint = "give -o DIR"});
}

void save_mask(const std::string& folder, const SourceImage& source_image, const vision::ClassMap& map) {
  const fs::path masks = fs::path(folder) / "masks";
  const std::string path = (masks / (stem_of(source_image) + ".png")).string();
  make_folder(masks.string());
  paths().write("--save-masks", path);
  write_atomically(path,
                   std::as_bytes(std::span<const uint8_t>(vision::grey_png_bytes(map.classes, map.width, map.height))));
}

void print(const SourceImage& source_image, const std::vector<vision::ClassShare>& shares,
           const std::vector<std::string>& labels) {
  print_out("{}: {}\n", printable(source_image.path), counted(static_cast<int64_t>(shares.size()), "class"));
  for (const vision::ClassShare& part : shares)
    print_out("  {:<16} {:5.1f} %\n", printable(vision::label(labels, part.class_id)), part.share * 100);
}

Json to_json(const vision::ClassMap& map, const std::vector<vision::ClassShare>& shares,
             const std::vector<std::string>& labels) {
  Json list = Json::array();
  for (const vision::ClassShare& part : shares)
    list.push_back({{"class", part.class_id},
                    {"label", vision::label(labels, part.class_id)},
                    {"pixels", part.pixels},
                    {"share", part.share},
                    {"mask",
                     {{"size", {map.height, map.width}},
                      {"counts", vision::run_lengths(vision::mask_of(map, part.class_id), map.width, map.height)}}}});
  return list;
}

int work(const Options& options) {
  check(options);
  ImagePass pass(options, "imagenet_resize");
  ImageModel& model = pass.model();
  if (options.save_masks) require_stems(pass.source(), "--save-masks", "masks/{}.png");
  const bool prints = options.json != "-" && options.format == "text";
  std::optional<vision::MapHead> head;
  vision::ClassMap map;
  std::vector<vision::ClassShare> shares;
  ImageSteps steps;
  steps.read = [&](const SourceImage& source_image, const std::vector<Tensor>& outputs,
                   const vision::Transform& transform) {
    if (!head) {
      head = recognised(model, outputs, options.model);
      if (!options.quiet) note(fmt::format("the output is read as {} of each pixel", vision::name(head->kind)));
      model.tell_doubts(head->classes);
    }
    map = vision::segment(*head, outputs, source_image.slot, transform);
    shares = vision::shares_of(map);
  };
  steps.tell = [&](const SourceImage& source_image, Json& entry) {
    if (prints && source_image.frame < 0) print(source_image, shares, model.labels());
    entry["classes"] = to_json(map, shares, model.labels());
  };
  steps.draw = [&](SourceImage& source_image) {
    if (options.save_masks) save_mask(options.output_dir, source_image, map);
    vision::draw_segments(source_image.image, map, model.labels());
  };
  pass.run(steps);
  Json report = model.facts();
  report["head"] = head ? Json(vision::name(head->kind)) : Json();
  pass.add_to(report, "segmentations");
  write_report(
      options.json, options.format, report, [&] { return segments_as_coco(report["segmentations"], model.labels()); },
      [&] { return segments_as_csv(report["segmentations"]); });
  return pass.status();
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
      .one_of({"text", "json", "csv", "coco"})
      .with_default();
  flags.add("--save-masks", options->save_masks,
            "Also write DIR/masks/NAME.png: the class of each pixel as a grey value");
  flags.footer(
      "Outputs may be scores of each class for each pixel, in any size, one score for each pixel, or classes.\n"
      "Examples:\n"
      "  tenon segment deeplab.onnx --source street.jpg --labels voc.txt -o out\n"
      "  tenon segment segformer.tenon --source clip.mp4 -o out --save-masks");
  return [options] { return work(*options); };
}

const Registrar registrar({4, "segment", "Name what each pixel shows", add});

}  // namespace
}  // namespace tenon::cli::segment_verb

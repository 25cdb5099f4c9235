// SPDX-License-Identifier: Apache-2.0
#include "cli/images.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "backends/backend.h"
#include "cli/companions.h"
#include "cli/flags.h"
#include "cli/notes.h"
#include "cli/report.h"
#include "engine/engine.h"
#include "vision/labels.h"

namespace tenon::cli {

namespace {
constexpr int64_t usual_side = 640;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// --preprocess, or what the model says of itself, or the preset.
std::string spec_of(const ImageOptions& options, const Engine& engine, const std::string& preset) {
  if (!options.preprocess.empty()) return options.preprocess;
  const std::string told = vision::told_spec(engine.metadata());
  return told.empty() ? preset : told;
}
/// The same before a model is built.
std::string stated_spec(const ImageOptions& options, const std::string& preset) {
  if (is_engine_file(options.path())) return spec_of(options, Engine::load(options.path()), preset);
  return options.preprocess.empty() ? preset : options.preprocess;
}

/// Sizes for the inputs: the model's own, with batch 1, and those of the preprocessing or 640 for free sides.
Shapes image_shapes(const ImageOptions& options, const std::string& preset) {
  const std::vector<TensorInfo> infos = options.stated_inputs();
  const TensorInfo& image = infos[image_input(infos, options.model)];
  Shapes shapes = parse_shapes(options.shapes);
  std::vector<int64_t>& sizes = shapes.try_emplace(image.name, image.shape).first->second;
  const vision::Spec spec = vision::parse_spec(stated_spec(options, preset));
  const bool batched = image.shape.size() == 4;
  const size_t first = batched ? 1 : 0;
  if (sizes.size() < first + 3) return shapes;
  const bool last = (sizes[first + 2] == 3 || sizes[first + 2] == 1) && sizes[first] != 3 && sizes[first] != 1;
  const int64_t height = spec.height > 0 ? spec.height : usual_side, width = spec.width > 0 ? spec.width : usual_side;
  const int64_t otherwise[4] = {1, last ? height : 3, last ? width : height, last ? 3 : width};
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (sizes[axis] < 0) sizes[axis] = otherwise[axis + 1 - first];
  for (const TensorInfo& info : infos)
    if (info.name != image.name)
      shapes.try_emplace(info.name,
                         companion_sizes(info, sizes[first + (last ? 0 : 1)], sizes[first + (last ? 1 : 2)]));
  return shapes;
}

Dims with_batch(Dims dims) {
  if (dims.rank() == 3) dims.insert(0, 1);
  return dims;
}
}  // namespace

void ImageOptions::add_to(CLI::App& app) {
  Flags flags(app);
  ModelOptions::add_to(app);
  flags
      .add("-s,--source", source,
           "An image, a video, a folder of images, a quoted pattern as \"images/*.jpg\", a list of paths (.txt), or "
           "the http, https or rtsp address of a stream, or the number of a camera")
      .required()
      .value("PATH")
      .reads_source();
  flags.add("--labels", labels, "Class names, one a line; default: those in the model").value("FILE").reads();
  flags
      .add("--preprocess", preprocess,
           "How images become the input: yolo, yolox, imagenet, imagenet_resize, or words such as "
           "letterbox=640x640,scale=1/255. "
           "Default: as the engine was built with, or what the model looks like")
      .value("SPEC");
  add_json(app, json);
}

ImageModel::ImageModel(const ImageOptions& options, const std::string& preset)
    : ImageModel(options, preset, image_shapes(options, preset)) {}

ImageModel::ImageModel(const ImageOptions& options, const std::string& preset, const Shapes& shapes)
    : engine_(options.open(shapes)) {
  lanes_.push_back(lane(options.threads, shapes));
  if (backends::backend(engine_.device()).capabilities(engine_.device()).concurrent)
    lanes_.push_back(lane(options.threads, shapes));
  prepare_as(spec_of(options, engine_, preset));
  uses_preset_ = options.preprocess.empty() && vision::told_spec(engine_.metadata()).empty();
  quiet_ = options.quiet, model_ = options.model, preset_ = preset;
  from_ = !options.preprocess.empty()      ? "--preprocess"
          : uses_preset_                   ? "a guess"
          : is_engine_file(options.path()) ? "the engine"
                                           : "the model's metadata";
  const auto names = engine_.metadata().find("names");
  if (!options.labels.empty()) labels_ = vision::labels_from_file(options.labels);
  else if (names != engine_.metadata().end()) labels_ = vision::labels_from_metadata(names->second);
}

ImageModel::Lane ImageModel::lane(int threads, const Shapes& shapes) const {
  Lane lane{engine_.session(threads, shapes), {}, {}, std::vector<Tensor>(engine_.outputs().size()), {}, {}, {}};
  const std::vector<TensorInfo> infos = engine_.inputs();
  const size_t image = image_input(infos, model_);
  for (size_t at = 0; at < infos.size(); ++at) lane.inputs.push_back(lane.session.input(at));
  lane.input = lane.inputs[image];
  std::memset(lane.input.data(), 0, lane.input.bytes());
  const Dims dims = with_batch(lane.input.dims());
  const bool last = dims[3] == 3 && dims[1] != 3;
  for (size_t at = 0; at < infos.size(); ++at)
    if (at != image) fill_companion(infos[at], lane.inputs[at], dims[last ? 1 : 2], dims[last ? 2 : 3]);
  return lane;
}

void ImageModel::prepare_as(const std::string& spec) {
  spec_ = vision::resolve(vision::parse_spec(spec), with_batch(lanes_[0].input.dims()));
}

const std::vector<Tensor>& ImageModel::run(SourceImage& source_image, vision::Transform& transform) {
  Lane& lane = lanes_[0];
  const Clock::time_point begin = Clock::now();
  transform = vision::preprocess(source_image.image, spec_, lane.input.data<float>());
  source_image.preprocess_ms = milliseconds_since(begin);
  const Clock::time_point start = Clock::now();
  lane.session.run(lane.inputs, lane.outputs);
  source_image.inference_ms = milliseconds_since(start);
  return lane.outputs;
}

vision::ModelHints ImageModel::hints() const {
  std::vector<std::string> outputs;
  for (const TensorInfo& info : engine_.outputs()) outputs.push_back(info.name);
  return vision::ModelHints::of(engine_.metadata(), labels_.size(), std::move(outputs));
}

void ImageModel::tell_doubts(int64_t classes) {
  if (quiet_ || std::exchange(told_, true)) return;
  if (uses_preset_)
    warn(
        fmt::format("the model does not tell how images become its input: taken as \"{}\", {}; where results look "
                    "wrong, give --preprocess {}",
                    preset_, spec_.str(), preset_ == "yolo" ? "yolox or imagenet" : "yolo or a specification"));
  if (uses_preset_ && lanes_[0].inputs.size() == 1 && lanes_[0].input.dims().rank() == 4) {
    const Dims& dims = lanes_[0].input.dims();
    doubts_.emplace(engine_, Shapes{{engine_.inputs()[0].name, {dims.begin(), dims.end()}}});
    if (!lanes_[0].under_way.valid() && lanes_[0].source_image.path.empty()) look(lanes_[0]);
  }
  const auto named = static_cast<int64_t>(labels_.size());
  if (named == 0) note("classes are shown by number: give --labels FILE");
  else if (classes > 0 && named != classes)
    warn(fmt::format("there are {}, and the model has {} classes: names may be shifted", counted(named, "label"),
                     classes));
}

nlohmann::ordered_json ImageModel::facts() const {
  constexpr int schema = 1;
  nlohmann::ordered_json preprocessing = {{"spec", spec_.str()}, {"from", from_}};
  if (!suspicions_.empty()) preprocessing["suspicions"] = suspicions_;
  return {{"schema", schema},
          {"model", model_},
          {"device", engine_.device().str()},
          {"precision", name(engine_.precision())},
          {"preprocessing", std::move(preprocessing)},
          {"labels", labels_.size()}};
}

void ImageModel::settle(Lane& lane, const Seen& seen) {
  if (!lane.under_way.valid()) return;
  lane.under_way.get();
  seen(lane.source_image, lane.outputs, lane.transform);
  look(lane);
}

void ImageModel::look(Lane& lane) {
  if (doubts_) doubts_->note(lane.source_image.path, lane.input, lane.outputs, lane.session);
}

void ImageModel::feed(SourceImage& source_image, const Seen& seen) {
  Lane& lane = lanes_[next_];
  next_ = (next_ + 1) % lanes_.size();
  settle(lane, seen);
  // The image gets a used one's memory in exchange.
  lane.source_image.path = source_image.path, lane.source_image.frame = source_image.frame;
  lane.source_image.fps = source_image.fps;
  std::swap(lane.source_image.image, source_image.image);
  lane.source_image.decode_ms = source_image.decode_ms;
  const Clock::time_point begin = Clock::now();
  lane.transform = vision::preprocess(lane.source_image.image, spec_, lane.input.data<float>());
  lane.source_image.preprocess_ms = milliseconds_since(begin);
  const auto work = [&lane] {
    const Clock::time_point start = Clock::now();
    lane.session.run(lane.inputs, lane.outputs);
    lane.source_image.inference_ms = milliseconds_since(start);
  };
  const bool beside = lanes_.size() > 1;
  lane.under_way = std::async(beside ? std::launch::async : std::launch::deferred, work);
  if (!beside) settle(lane, seen);
}

void ImageModel::finish(const Seen& seen) {
  for (size_t at = 0; at < lanes_.size(); ++at) settle(lanes_[(next_ + at) % lanes_.size()], seen);
  if (!doubts_) return;
  suspicions_ = doubts_->found();
  doubts_.reset();
  for (const std::string& line : suspicions_) warn(line);
}

nlohmann::ordered_json entry_of(const SourceImage& source_image) {
  nlohmann::ordered_json entry = {{"image", source_image.path}};
  if (source_image.frame >= 0) entry["frame"] = source_image.frame;
  entry["width"] = source_image.image.width;
  entry["height"] = source_image.image.height;
  entry["ms"] = {{"decode", source_image.decode_ms},
                 {"preprocess", source_image.preprocess_ms},
                 {"inference", source_image.inference_ms},
                 {"postprocess", source_image.postprocess_ms}};
  return entry;
}

void Speed::add(const SourceImage& source_image) {
  ++count_;
  decode_ += source_image.decode_ms;
  preprocess_ += source_image.preprocess_ms;
  inference_ += source_image.inference_ms;
  postprocess_ += source_image.postprocess_ms;
}

std::string Speed::text() const {
  if (count_ == 0) return "";
  const auto each = static_cast<double>(count_);
  return fmt::format(
      "for each image: decode {:.1f} ms, preprocess {:.1f} ms, inference {:.1f} ms, postprocess {:.1f} ms",
      decode_ / each, preprocess_ / each, inference_ / each, postprocess_ / each);
}

}  // namespace tenon::cli

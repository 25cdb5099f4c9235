// SPDX-License-Identifier: Apache-2.0
#include "cli/images.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "backends/backend.h"
#include "cli/arrays.h"
#include "cli/companions.h"
#include "cli/flags.h"
#include "cli/notes.h"
#include "cli/report.h"
#include "engine/engine.h"
#include "ops/floats.h"
#include "vision/labels.h"

namespace tenon::cli {

namespace {
constexpr int64_t usual_side = 640, most_images = 65536;
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

/// --batch-size into the sizes of the image. Throws Error(usage) where they are others.
void take_batch(std::vector<int64_t>& sizes, bool batched, int batch) {
  if (batch == 0) return;
  const int64_t own = batched && !sizes.empty() ? sizes[0] : 1;
  if (own >= 0 && own != batch)
    throw Error(Code::usage,
                fmt::format("the model expects {}",
                            batched ? "a batch of " + std::to_string(own) : "one image, without a batch"),
                {.where = fmt::format("--batch-size {}", batch),
                 .hint = "leave it out, or export the model with a dynamic batch"});
  if (own < 0) sizes[0] = batch;
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
  take_batch(sizes, batched, options.batch_size);
  if (sizes.size() < first + 3) return shapes;
  const bool last = (sizes[first + 2] == 3 || sizes[first + 2] == 1) && sizes[first] != 3 && sizes[first] != 1;
  const int64_t height = spec.height > 0 ? spec.height : usual_side, width = spec.width > 0 ? spec.width : usual_side;
  const int64_t otherwise[4] = {1, last ? height : 3, last ? width : height, last ? 3 : width};
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (sizes[axis] < 0) sizes[axis] = otherwise[axis + 1 - first];
  for (const TensorInfo& info : infos)
    if (info.name != image.name)
      shapes.try_emplace(info.name, companion_sizes(info, batched ? sizes[0] : 1, sizes[first + (last ? 0 : 1)],
                                                    sizes[first + (last ? 1 : 2)]));
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
           "An image, a video, a folder of them, a quoted pattern as \"images/**/*.jpg\", a list of paths (.txt), the "
           "http, https or rtsp address of a stream, or the number of a camera")
      .required()
      .value("PATH")
      .reads_source();
  flags.add("IMAGE", more, "More sources, as a pattern without quotes gives them: --source images/*.jpg")
      .value("PATH")
      .reads_source();
  flags
      .add("--batch-size,--batch", batch_size,
           "Images that run together. Default: as the model expects, or 1 where its batch is dynamic")
      .value("N")
      .between(int64_t{1}, most_images);
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
  runners_.push_back(runner(options.threads, shapes));
  if (backends::backend(engine_.device()).capabilities(engine_.device()).concurrent)
    runners_.push_back(runner(options.threads, shapes));
  prepare_as(spec_of(options, engine_, preset));
  uses_preset_ = options.preprocess.empty() && vision::told_spec(engine_.metadata()).empty();
  quiet_ = options.quiet, model_ = options.model;
  from_ = !options.preprocess.empty()      ? "--preprocess"
          : uses_preset_                   ? "a guess"
          : is_engine_file(options.path()) ? "the engine"
                                           : "the model's metadata";
  const auto names = engine_.metadata().find("names");
  try {
    if (names != engine_.metadata().end()) labels_ = vision::labels_from_metadata(names->second);
  } catch (const Error&) {
    if (options.labels.empty()) throw;
  }
  named_ = labels_.size();
  if (!options.labels.empty()) labels_ = vision::labels_from_file(options.labels);
}

ImageModel::Runner ImageModel::runner(int threads, const Shapes& shapes) const {
  Runner runner{engine_.session(threads, shapes), {}, {}, {}, {}, {}, {}, 0, 0, {}};
  runner.results.resize(engine_.outputs().size());
  const std::vector<TensorInfo> infos = engine_.inputs();
  const size_t image = image_input(infos, model_);
  for (size_t at = 0; at < infos.size(); ++at) runner.inputs.push_back(runner.session.input(at));
  runner.image = image;
  const Tensor& own = runner.inputs[image];
  runner.input = own.dtype() == DType::f32 ? own : Tensor(DType::f32, own.dims());
  std::memset(runner.input.data(), 0, runner.input.bytes());
  const Dims dims = with_batch(runner.input.dims());
  const bool last = dims[3] == 3 && dims[1] != 3;
  for (size_t at = 0; at < infos.size(); ++at)
    if (at != image) fill_companion(infos[at], runner.inputs[at], dims[last ? 1 : 2], dims[last ? 2 : 3]);
  runner.images.resize(static_cast<size_t>(dims[0]));
  runner.transforms.resize(runner.images.size());
  return runner;
}

void ImageModel::prepare_as(const std::string& spec) {
  spec_ = vision::resolve(vision::parse_spec(spec), with_batch(runners_[0].input.dims()));
  preset_ = spec;
  Runner& runner = runners_[0];
  for (size_t slot = 0; slot < runner.filled; ++slot) prepare(runner, slot);
  if (runner.filled > 0) run(runner);
}

vision::ModelHints ImageModel::hints() const {
  std::vector<std::string> outputs;
  for (const TensorInfo& info : engine_.outputs()) outputs.push_back(info.name);
  return vision::ModelHints::of(engine_.metadata(), named_ > 0 ? named_ : labels_.size(), std::move(outputs));
}

std::optional<vision::Head> ImageModel::head_of(const std::vector<Tensor>& outputs) const {
  vision::ModelHints known = hints();
  if (auto head = vision::recognise(outputs, spec_.width, spec_.height, known)) return head;
  if (named_ > 0 || known.labels == 0) return std::nullopt;
  // The labels may be another model's.
  known.labels = 0;
  return vision::recognise(outputs, spec_.width, spec_.height, known);
}

void ImageModel::tell_doubts(int64_t classes) {
  if (quiet_ || std::exchange(told_, true)) return;
  if (uses_preset_)
    warn(
        fmt::format("the model does not tell how images become its input: taken as \"{}\", {}; where results look "
                    "wrong, give --preprocess {}",
                    preset_, spec_.str(), preset_ == "yolo" ? "yolox or imagenet" : "yolo or a specification"));
  const bool plain = runners_[0].inputs.size() == 1 && runners_[0].inputs[0].dtype() == DType::f32;
  if (uses_preset_ && plain && runners_[0].input.dims().rank() == 4) {
    const Dims& dims = runners_[0].input.dims();
    doubts_.emplace(engine_, Shapes{{engine_.inputs()[0].name, {dims.begin(), dims.end()}}});
  }
  const auto named = static_cast<int64_t>(labels_.size());
  if (named == 0) note("classes are shown by number: give --labels FILE");
  else if (classes > 0 && named != classes)
    warn(fmt::format("the number of labels ({}) is not that of the model's classes ({}): names may be shifted", named,
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

void ImageModel::prepare(Runner& runner, size_t slot) {
  const Clock::time_point begin = Clock::now();
  float* first = runner.input.data<float>();
  const auto each = static_cast<size_t>(runner.input.elements()) / runner.images.size();
  runner.transforms[slot] = vision::preprocess(runner.images[slot].image, spec_, first + slot * each);
  runner.images[slot].preprocess_ms = milliseconds_since(begin);
}

void ImageModel::run(Runner& runner) {
  // What is left of a batch holds the first image, so that no values of nowhere are computed with.
  auto* bytes = runner.input.data<std::byte>();
  const size_t each = runner.input.bytes() / runner.images.size();
  for (size_t slot = runner.filled; slot < runner.images.size(); ++slot) std::memcpy(bytes + slot * each, bytes, each);
  const Clock::time_point begin = Clock::now();
  if (Tensor& own = runner.inputs[runner.image]; own.dtype() != DType::f32) cast_into(own, runner.input);
  runner.session.run(runner.inputs, runner.results);
  runner.outputs.clear();
  for (const Tensor& result : runner.results) runner.outputs.push_back(ops::as_f32(result));
  const double ms = milliseconds_since(begin) / static_cast<double>(runner.filled);
  for (size_t slot = 0; slot < runner.filled; ++slot) runner.images[slot].inference_ms = ms;
}

void ImageModel::start(const Seen& seen) {
  Runner& runner = runners_[next_];
  next_ = (next_ + 1) % runners_.size();
  // The first batch may change how images are prepared, so the second waits for it.
  const bool beside = runners_.size() > 1 && std::exchange(begun_, true);
  runner.under_way = std::async(beside ? std::launch::async : std::launch::deferred, [&runner] { run(runner); });
  if (!beside) settle(runner, seen);
}

void ImageModel::settle(Runner& runner, const Seen& seen) {
  if (!runner.under_way.valid()) return;
  runner.under_way.get();
  std::vector<std::string> names;
  for (size_t slot = 0; slot < runner.filled; ++slot) {
    names.push_back(runner.images[slot].path);
    seen(runner.images[slot], runner.outputs, runner.transforms[slot]);
  }
  if (doubts_) doubts_->note(names, runner.input, runner.outputs, runner.session);
  runner.filled = 0;
}

void ImageModel::feed(SourceImage& source_image, const Seen& seen) {
  Runner& runner = runners_[next_];
  settle(runner, seen);
  SourceImage& own = runner.images[runner.filled];
  // The image gets a used one's memory in exchange.
  own.path = source_image.path, own.frame = source_image.frame;
  own.fps = source_image.fps;
  std::swap(own.image, source_image.image);
  own.decode_ms = source_image.decode_ms;
  own.slot = static_cast<int64_t>(runner.filled);
  prepare(runner, runner.filled++);
  if (runner.filled == runner.images.size()) start(seen);
}

void ImageModel::finish(const Seen& seen) {
  if (!runners_[next_].under_way.valid() && runners_[next_].filled > 0) start(seen);
  for (size_t at = 0; at < runners_.size(); ++at) settle(runners_[(next_ + at) % runners_.size()], seen);
  if (!doubts_) return;
  suspicions_ = doubts_->found();
  doubts_.reset();
  for (const std::string& line : suspicions_) warn(line);
}

void ImageModel::suspect(const std::string& line) {
  warn(line);
  suspicions_.push_back(line);
}

}  // namespace tenon::cli

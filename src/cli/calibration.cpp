// SPDX-License-Identifier: Apache-2.0
#include "cli/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/entries.h"
#include "base/file.h"
#include "cli/arrays.h"
#include "cli/flags.h"
#include "cli/notes.h"
#include "cli/report.h"
#include "vision/decode.h"
#include "vision/file.h"
#include "vision/samples.h"
#include "vision/video.h"

namespace fs = std::filesystem;

namespace tenon::cli {
namespace {

/// One file, or one folder of input_N.pb, is one batch.
class ArraySamples : public Calibrator {
 public:
  ArraySamples(std::vector<std::string> paths, std::vector<TensorInfo> inputs)
      : paths_(std::move(paths)), inputs_(std::move(inputs)) {}
  bool next_batch(CalibrationBatch& batch) override {
    if (at_ == paths_.size()) return false;
    const std::string& path = paths_[at_++];
    batch.inputs.clear();
    batch.names.clear();
    for (size_t input = 0; input < inputs_.size(); ++input) {
      std::string part = path;
      if (is_folder(path)) part = (fs::path(path) / fmt::format("input_{}.pb", input)).string();
      else if (inputs_.size() > 1 && path.ends_with(".npz")) part = path + ":" + inputs_[input].name;
      else if (inputs_.size() > 1)
        throw Error(Code::usage, "the model has several inputs, and this file holds an array for one",
                    {.where = path, .hint = "give a .npz with a key for each input, or folders of input_N.pb"});
      const TensorInfo& info = inputs_[input];
      batch.inputs[info.name] = cast_to_input(read_array(part, info.dtype), info.dtype, part);
    }
    const Tensor& first = batch.inputs.begin()->second;
    const int64_t count = first.dims().rank() ? first.dims()[0] : 1;
    for (int64_t row = 0; row < count; ++row) batch.names.push_back(fmt::format("{}, sample {}", path, row));
    return true;
  }

 private:
  std::vector<std::string> paths_;
  std::vector<TensorInfo> inputs_;
  size_t at_ = 0;
};

/// One source behind another, with a cache in a file where that has a name.
class SeveralSources : public Calibrator {
 public:
  SeveralSources(std::vector<std::unique_ptr<Calibrator>> parts, std::string cache)
      : parts_(std::move(parts)), cache_(std::move(cache)) {}
  int64_t samples() const override {
    int64_t sum = 0;
    for (const auto& part : parts_) {
      if (part->samples() == 0) return 0;
      sum += part->samples();
    }
    return sum;
  }
  bool next_batch(CalibrationBatch& batch) override {
    for (; at_ < parts_.size(); ++at_)
      if (parts_[at_]->next_batch(batch)) return true;
    return false;
  }
  std::string preprocessing() const override { return parts_.empty() ? "" : parts_.front()->preprocessing(); }
  std::string read_cache() override {
    constexpr int64_t largest = int64_t{1} << 30;
    if (cache_.empty() || !is_there(cache_)) return {};
    const std::vector<uint8_t> bytes = vision::read_file(cache_, largest);
    return {bytes.begin(), bytes.end()};
  }
  void write_cache(const std::string& text) override {
    if (!cache_.empty()) write_atomically(cache_, std::as_bytes(std::span(text)));
  }

 private:
  std::vector<std::unique_ptr<Calibrator>> parts_;
  std::string cache_;
  size_t at_ = 0;
};

bool is_array_name(const std::string& path) {
  return path.ends_with(".npy") || path.ends_with(".pb") || path.ends_with(".npz") ||
         path.find(".npz:") != std::string::npos;
}

/// Files and folders of arrays that a path stands for; empty for images and videos.
std::vector<std::string> arrays_of(const std::string& path) {
  if (is_array_name(path)) return {path};
  if (!is_folder(path)) return {};
  if (is_there(fs::path(path) / "input_0.pb")) return {path};
  std::vector<std::string> found;
  for (const std::string& entry : entries_of(path))
    if (is_folder(entry) ? is_there(fs::path(entry) / "input_0.pb")
                         : entry.ends_with(".npy") || entry.ends_with(".npz"))
      found.push_back(entry);
  return found;
}

/// The dims of the one image input; free sizes are taken from --shapes.
Dims image_dims(const std::vector<TensorInfo>& inputs, const Shapes& shapes, const std::string& data) {
  if (inputs.size() != 1 || inputs[0].shape.size() != 4 || inputs[0].dtype != DType::f32)
    throw Error(Code::usage, "the model does not expect one image",
                {.where = data, .hint = "give its inputs as arrays: .npy, .npz or ONNX .pb"});
  const auto given = shapes.find(inputs[0].name);
  Dims dims(given != shapes.end() && given->second.size() == 4 ? given->second : inputs[0].shape);
  for (int64_t& size : dims) size = std::max<int64_t>(size, 0);
  return dims;
}

/// Whether a size behind the batch is free.
bool is_open(const TensorInfo& input) {
  const std::vector<int64_t>& sizes = input.shape;
  return sizes.size() > 1 && std::any_of(sizes.begin() + 1, sizes.end(), [](int64_t size) { return size < 0; });
}

/// "Nx3x48x320"
std::string text_of(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : "x") + (size < 0 ? "N" : std::to_string(size));
  return text;
}

/// Sizes that the preprocessing gives an image.
Dims sizes_of_images(const std::string& preprocess, const Dims& dims) {
  const vision::Spec spec = vision::resolve(vision::parse_spec(preprocess), dims);
  if (spec.width < 1 || spec.height < 1)
    throw Error(Code::usage, "neither the model nor the preprocessing says how large images are",
                {.where = "--preprocess " + preprocess,
                 .hint = fmt::format("give it: --preprocess {},size=WIDTHxHEIGHT", preprocess)});
  if (spec.layout == vision::Layout::nhwc) return Dims{1, spec.height, spec.width, spec.channels()};
  return Dims{1, spec.channels(), spec.height, spec.width};
}

/// Free sizes behind the batch that nobody gave become those of the images or of the first arrays.
void take_sizes(const DataOptions& data, const std::vector<TensorInfo>& inputs, Shapes& shapes) {
  std::map<std::string, Dims> found;
  std::string first;
  for (const std::string& path : data.data)
    if (first.empty())
      if (const auto arrays = arrays_of(path); !arrays.empty()) first = arrays[0];
  if (!first.empty()) {
    CalibrationBatch batch;
    ArraySamples({first}, inputs).next_batch(batch);
    for (const auto& [name, array] : batch.inputs) found[name] = array.dims();
  } else if (!data.preprocess.empty() && inputs.size() == 1 && inputs[0].shape.size() == 4 && shapes.empty()) {
    found[inputs[0].name] = sizes_of_images(data.preprocess, image_dims(inputs, shapes, data.data[0]));
  }
  for (const TensorInfo& input : inputs) {
    const auto sizes = found.find(input.name);
    if (sizes == found.end() || sizes->second.rank() != input.shape.size() || shapes.contains(input.name)) continue;
    std::vector<int64_t> taken = input.shape;
    for (size_t axis = 1; axis < taken.size(); ++axis)
      if (taken[axis] < 0) taken[axis] = sizes->second[axis];
    if (taken == input.shape) continue;
    note(fmt::format("input \"{}\" takes the sizes of the data, {}; others by --shapes", input.name, text_of(taken)));
    shapes[input.name] = std::move(taken);
  }
}

}  // namespace

void DataOptions::add_to(CLI::App& app) {
  Flags flags(app, "Calibration");
  flags
      .add("--data,--calibration-data", data,
           "Calibration data: an image, a folder of images, a video, .npy, .npz, ONNX .pb sets (may be given "
           "again)")
      .value("PATH")
      .reads_array()
      .one_each();
  flags
      .add("--preprocess", preprocess,
           "How images become the input: yolo, yolox, imagenet, or words such as letterbox=640x640,scale=1/255")
      .value("SPEC");
  flags.add("--calibrator", method, "auto, minmax, percentile, mse, entropy or entropy-legacy")
      .value("NAME")
      .with_default();
  flags
      .add("--percentile", options.percentile,
           "Percent of the values that lie inside the range, for --calibrator percentile")
      .value("P")
      .between(50.0, 100.0)
      .with_default();
  flags
      .add("--max-error", max_error,
           "Relative squared error at the outputs above which layers stay in floating point. Default: none where "
           "engines "
           "are judged by a drop (--max-drop), else 0.001")
      .value("E")
      .between(0.0, 1e9);
  flags.add("--keep", keep, "Keep a layer in a precision: NODE=fp32 or NODE=int8 (may be given again)")
      .value("NODE=P")
      .one_each();
  flags
      .add("--calib-cache", cache,
           "Read the calibration from this file where it fits, else write it there; also TensorRT's tables")
      .value("FILE")
      .keeps(FileKind::calibration_cache);
  flags
      .add(
          "--effort", effort,
          "normal, or high: each weight is rounded up or down so that its layer's error on the data is smallest, where "
          "that lowers the error at the outputs; takes longer")
      .value("LEVEL")
      .with_default();
  flags.add("--calib-batch", options.batch, "Samples that run together; a model of fixed batch keeps its own")
      .value("N")
      .between(int64_t{1}, int64_t{4096});
  flags.add("--calib-count", options.count, "Samples to use, spread evenly over images and frames. Default: all")
      .value("N")
      .between(int64_t{1}, int64_t{100000000});
}

namespace {
/// "NODE=fp32" and "NODE=int8" by node.
std::map<std::string, std::string> kept(const std::vector<std::string>& words) {
  std::map<std::string, std::string> keep;
  for (const std::string& word : words) {
    const size_t equals = word.rfind('=');
    const std::string precision = equals == std::string::npos ? "" : word.substr(equals + 1);
    const std::optional<Precision> kept_in = precision_named(precision);
    if (equals == 0 || (kept_in != Precision::fp32 && kept_in != Precision::int8))
      throw Error(Code::usage, "\"" + word + "\" does not name a node and a precision",
                  {.where = "--keep", .hint = "write NODE=fp32 or NODE=int8"});
    keep[word.substr(0, equals)] = precision;
  }
  return keep;
}
}  // namespace

vision::Spec image_spec(const DataOptions& data, const std::vector<TensorInfo>& inputs, const Shapes& shapes,
                        const std::string& where) {
  const Dims dims = image_dims(inputs, shapes, where);
  if (data.preprocess.empty())
    throw Error(Code::usage, "calibration on images needs to know how they become the model's input",
                {.where = where, .hint = "give --preprocess yolo, yolox, imagenet or a specification"});
  return vision::resolve(vision::parse_spec(data.preprocess), dims);
}

std::shared_ptr<Calibrator> calibration_data(const DataOptions& given, const std::vector<TensorInfo>& inputs,
                                             const Shapes& shapes, bool warns) {
  std::vector<std::string> images, arrays;
  for (const std::string& path : given.data) {
    const std::vector<std::string> found = arrays_of(path);
    arrays.insert(arrays.end(), found.begin(), found.end());
    if (found.empty()) images.push_back(path);
  }
  std::vector<std::unique_ptr<Calibrator>> parts;
  if (!images.empty()) {
    const vision::Spec spec = image_spec(given, inputs, shapes, images[0]);
    parts.push_back(vision::image_samples(images, spec, given.options.count, [warns](const std::string& text) {
      if (warns) warn(text);
    }));
  }
  if (!arrays.empty()) parts.push_back(std::make_unique<ArraySamples>(arrays, inputs));
  return std::make_shared<SeveralSources>(std::move(parts), given.cache);
}

std::shared_ptr<Calibrator> resaved_data(const DataOptions& given, const std::vector<TensorInfo>& inputs,
                                         const Shapes& shapes, int quality) {
  for (const std::string& path : given.data)
    if (!arrays_of(path).empty()) return nullptr;
  const vision::Spec spec = image_spec(given, inputs, shapes, given.data[0]);
  return vision::image_samples(given.data, spec, given.options.count, {}, quality);
}

void DataOptions::apply(const ModelOptions& model, BuildOptions& build) const {
  const auto named = calibration_method_named(method);
  if (!named)
    throw Error(Code::usage, "no calibrator is called \"" + method + "\"",
                {.where = "--calibrator", .hint = std::string("give ") + calibration_method_names});
  build.calibration = options;
  build.calibration.method = *named;
  build.calibration.keep = kept(keep);
  if (effort != "normal" && effort != "high")
    throw Error(Code::usage, "invalid value \"" + effort + "\"", {.where = "--effort", .hint = "give normal or high"});
  build.calibration.reconstruct = effort == "high";
  if (max_error >= 0) build.calibration.target_error = max_error;
  if (!preprocess.empty()) {
    vision::parse_spec(preprocess);
    build.metadata[vision::spec_key] = preprocess;
  }
  const bool needs_data = is_quantised(build.precision);
  const bool quantises = needs_data || build.precision == Precision::best || build.weights != Weights::given;
  if (data.empty() && (cache.empty() || !quantises)) {
    const bool floats = build.precision == Precision::fp8;
    if (needs_data)
      throw Error(Code::usage, floats ? "FP8 needs calibration data" : "INT8 needs calibration data",
                  {.where = floats ? "--precision fp8" : "--precision int8",
                   .hint = "give --data with images, a video or arrays"});
    return;
  }
  if (!quantises)
    throw Error(Code::usage, "calibration data is used for INT8 only",
                {.where = "--data", .hint = "give --precision int8"});
  const std::vector<TensorInfo> inputs = model.stated_inputs();
  if (!data.empty() && build.profiles.empty() && std::any_of(inputs.begin(), inputs.end(), is_open))
    take_sizes(*this, inputs, build.shapes);
  build.calibrator = calibration_data(*this, inputs, build.shapes);
}

}  // namespace tenon::cli

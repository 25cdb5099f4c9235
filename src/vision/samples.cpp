// SPDX-License-Identifier: Apache-2.0
#include "vision/samples.h"

#include <tenon/error.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/entries.h"
#include "vision/decode.h"
#include "vision/jpeg.h"
#include "vision/preprocess.h"
#include "vision/sources.h"
#include "vision/video.h"

namespace fs = std::filesystem;

namespace tenon::vision {
namespace {

constexpr int64_t usual_frames = 256;

struct Source {
  std::vector<std::string> images;  // empty: a video
  std::string video;
  int64_t items = 0, quota = 0;
};

/// Whether item `at` of `items` is one of `quota` spread evenly: the middle of each of `quota` equal parts.
bool is_chosen(int64_t at, int64_t items, int64_t quota) {
  if (quota >= items) return true;
  // Part k is items [k*items/quota, (k+1)*items/quota).
  const int64_t part = ((at + 1) * quota - 1) / items;
  return at == (part * items / quota + (part + 1) * items / quota) / 2;
}

Source source_of(const std::string& path) {
  Source source;
  std::error_code fault;
  if (!fs::exists(path, fault))
    throw Error(Code::io, "cannot open the calibration data",
                {.where = path, .why = fault ? fault.message() : "No such file or directory"});
  if (is_video_name(path) && !is_folder(path)) {
    source.video = path;
    source.items = std::max<int64_t>(VideoReader(path).frames(), 0);
    if (source.items == 0) source.items = usual_frames;  // the file does not say
    return source;
  }
  if (!is_folder(path)) {
    source.images = {path};
  } else {
    source.images = images_in(path);
  }
  source.items = static_cast<int64_t>(source.images.size());
  return source;
}

class ImageSamples : public Calibrator {
 public:
  ImageSamples(const std::vector<std::string>& paths, const Spec& spec, int64_t count,
               std::function<void(const std::string&)> warn, int jpeg)
      : spec_(spec), warn_(std::move(warn)), jpeg_(jpeg) {
    int64_t items = 0;
    for (const std::string& path : paths) sources_.push_back(source_of(path)), items += sources_.back().items;
    for (Source& source : sources_) {
      const int64_t usual = source.video.empty() ? source.items : std::min(source.items, usual_frames);
      source.quota = count > 0 ? std::min(source.items, (count * source.items + items - 1) / items) : usual;
      samples_ += source.quota;
    }
  }
  int64_t samples() const override { return samples_; }
  std::string preprocessing() const override { return spec_.str(); }

  bool next_batch(CalibrationBatch& batch) override {
    for (; source_ < sources_.size(); ++source_, item_ = 0, video_.reset()) {
      const Source& source = sources_[source_];
      if (source.video.empty() ? next_image(source, batch) : next_frame(source, batch)) return true;
    }
    return false;
  }

 private:
  void give(const std::string& name, CalibrationBatch& batch) {
    constexpr int most_side = 65500;  // of a JPEG
    if (jpeg_ > 0 && std::max(image_.width, image_.height) <= most_side)
      image_ = decode_jpeg(jpeg_bytes(image_, jpeg_), name);
    batch.inputs.clear();
    batch.inputs[""] = preprocess(std::span<const Image>(&image_, 1), spec_);
    batch.names = {name};
  }

  bool next_image(const Source& source, CalibrationBatch& batch) {
    while (item_ < source.items) {
      const int64_t at = item_++;
      if (!is_chosen(at, source.items, source.quota)) continue;
      const std::string& path = source.images[static_cast<size_t>(at)];
      try {
        image_ = decode_image(path);
      } catch (const Error& error) {
        pass_over(path, error);
        continue;
      }
      give(path, batch);
      return true;
    }
    return false;
  }

  bool next_frame(const Source& source, CalibrationBatch& batch) {
    if (!video_) video_.emplace(source.video);
    while (item_ < source.items) {
      try {
        if (!video_->next(image_)) return false;
      } catch (const Error& error) {
        pass_over(source.video + ", frame " + std::to_string(item_), error);
        return false;
      }
      const int64_t at = item_++;
      if (!is_chosen(at, source.items, source.quota)) continue;
      give(source.video + ", frame " + std::to_string(at), batch);
      return true;
    }
    return false;
  }

  void pass_over(const std::string& what, const Error& error) {
    ++bad_;
    bad_names_ += (bad_names_.empty() ? "" : ", ") + what;
    if (warn_) warn_("calibration passes over " + what + ": " + error.what());
    if (bad_ * 20 > samples_)
      throw Error(Code::io, "too much of the calibration data cannot be read",
                  {.where = bad_names_,
                   .why = std::to_string(bad_) + " of " + std::to_string(samples_) +
                          " are bad; one in twenty is the most",
                   .hint = "leave them out"});
  }

  Spec spec_;
  std::function<void(const std::string&)> warn_;
  int jpeg_;
  std::vector<Source> sources_;
  int64_t samples_ = 0, bad_ = 0, item_ = 0;
  size_t source_ = 0;
  std::string bad_names_;
  std::optional<VideoReader> video_;
  Image image_;
};

}  // namespace

std::unique_ptr<Calibrator> image_samples(const std::vector<std::string>& paths, const Spec& spec, int64_t count,
                                            std::function<void(const std::string&)> warn, int jpeg) {
  return std::make_unique<ImageSamples>(paths, spec, count, std::move(warn), jpeg);
}

}  // namespace tenon::vision

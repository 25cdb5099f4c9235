// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/gallery.h"
#include "cli/images.h"
#include "cli/source.h"

namespace tenon::cli {

/// What a verb does with each image, in this order.
struct ImageSteps {
  /// Makes its results of the outputs; timed as postprocessing.
  std::function<void(SourceImage&, const std::vector<Tensor>& outputs, const vision::Transform&)> read;
  /// Prints them, and puts them into the image's entry of the report.
  std::function<void(const SourceImage&, nlohmann::ordered_json& entry)> tell;
  /// Draws them, where there is a folder for that.
  std::function<void(SourceImage&)> draw;
};

/// One pass over the images of --source: what detect, segment and classify share.
class ImagePass {
 public:
  /// Builds or loads the model. Of a video one frame in `stride` is taken.
  ImagePass(const ImageOptions& options, const std::string& preset, int stride = 1);
  ImageModel& model() { return model_; }
  const Source& source() const { return source_; }
  /// Does the steps with every image; tells the rate and the mean times of each stage on stderr.
  void run(const ImageSteps& steps);
  /// Puts whether all was read, what was not and why, and behind it the entries of all images, into a report.
  void add_to(nlohmann::ordered_json& report, const char* key);
  /// "3 images", and how many could not be read.
  std::string counts() const;
  /// The exit status.
  int status() const;

 private:
  bool quiet_;
  int stride_;
  Source source_;
  Gallery gallery_;
  ImageModel model_;
  nlohmann::ordered_json entries_ = nlohmann::ordered_json::array();
  int64_t images_ = 0;
  std::vector<Unread> unread_;
};

/// --format and --json. Throws Error(usage) where the format is unknown, or `to_stdout` and --json go the same way.
void check_format(const std::string& format, const std::vector<std::string_view>& known, bool to_stdout,
                  const std::string& json);
/// Writes the report where --json says, and to the standard output what --format asks for.
void write_report(const std::string& json, const std::string& format, const nlohmann::ordered_json& report,
                  const std::function<nlohmann::ordered_json()>& as_coco, const std::function<std::string()>& as_csv);

}  // namespace tenon::cli

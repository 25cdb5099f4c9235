// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "cli/images.h"
#include "vision/video.h"

namespace tenon::cli {

/// The folder of -o: images under their own names, a video as one MP4 file.
class Gallery {
 public:
  /// Makes the folder; with "" everything else does nothing. A video has one frame in `stride`. Throws Error(usage)
  /// where a result would replace an input or another result, Error(io).
  Gallery(const std::string& folder, const std::string& source, int stride = 1);
  bool wanted() const { return !folder_.empty(); }
  void add(const SourceImage& source_image);
  void finish();

 private:
  /// Where the result of an image goes.
  std::string result_of(const std::string& image) const;

  std::string folder_, video_name_;
  double fps_ = 0;
  std::optional<vision::VideoWriter> video_;
};

}  // namespace tenon::cli

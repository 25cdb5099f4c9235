// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "cli/pictures.h"
#include "vision/video.h"

namespace tenon::cli {

/// The folder of -o: pictures under their own names, a video as one MP4 file.
class Gallery {
 public:
  /// Makes the folder; with "" everything else does nothing. Throws Error(usage) where a result would replace its
  /// source, Error(io).
  Gallery(const std::string& folder, const std::string& source);
  bool wanted() const { return !folder_.empty(); }
  void add(const Picture& picture);
  void finish();

 private:
  std::string folder_, video_name_;
  double fps_ = 0;
  std::optional<vision::VideoWriter> video_;
};

}  // namespace tenon::cli

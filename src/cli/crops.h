// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "cli/images.h"
#include "cli/source.h"
#include "vision/detection.h"
#include "vision/heads.h"

namespace tenon::cli {

/// How files are called that are made from an image: "street", or "clip_12" of a video's frame.
std::string stem_of(const SourceImage& source_image);
/// Throws Error(usage) where files of two images, called by their stems, would be the same; `name` is how messages
/// write such a file, with {} for the stem.
void require_stems(const Source& source, const std::string& option, const std::string& name);

/// What --save-txt and --save-crop write below the folder of -o, from images as they were before anything was drawn.
class Crops {
 public:
  /// Throws Error(usage) where files of two images of `source` would have the same name.
  Crops(const std::string& folder, bool text, bool crops, const Source& source);
  /// Throws Error(io).
  void add(const SourceImage& source_image, const std::vector<vision::Detection>& found, vision::Task task,
           const std::vector<std::string>& labels) const;

 private:
  void add_text(const SourceImage& source_image, const std::vector<vision::Detection>& found, vision::Task task) const;
  std::string folder_;
  bool text_, crops_;
};

}  // namespace tenon::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "cli/images.h"
#include "vision/detection.h"
#include "vision/heads.h"

namespace tenon::cli {

/// What --save-txt and --save-crop write below the folder of -o, from images as they were before anything was drawn.
class Crops {
 public:
  Crops(const std::string& folder, bool text, bool crops);
  /// Throws Error(io).
  void add(const SourceImage& source_image, const std::vector<vision::Detection>& found, vision::Task task,
           const std::vector<std::string>& labels) const;

 private:
  void add_text(const SourceImage& source_image, const std::vector<vision::Detection>& found,
                vision::Task task) const;
  std::string folder_;
  bool text_, crops_;
};

}  // namespace tenon::cli

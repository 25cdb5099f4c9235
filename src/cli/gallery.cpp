// SPDX-License-Identifier: Apache-2.0
#include "cli/gallery.h"

#include <filesystem>

#include "base/entries.h"
#include "cli/paths.h"
#include "vision/decode.h"

namespace fs = std::filesystem;

namespace tenon::cli {

Gallery::Gallery(const std::string& folder, const std::string& source, int stride) : folder_(folder) {
  if (folder.empty()) return;
  make_folder(folder);
  fps_ = frame_rate(source) / stride;
  if (fps_ > 0) {
    video_name_ = (fs::path(folder) / fs::path(source).stem()).string() + ".mp4";
    paths().write("-o", video_name_);
    return;
  }
  const std::vector<std::string> images = images_of(source);
  for (const std::string& image : images) paths().read("--source", image);
  for (const std::string& image : images) paths().write("-o", result_of(image));
}

std::string Gallery::result_of(const std::string& image) const {
  return (fs::path(folder_) / fs::path(image).filename()).string();
}

void Gallery::add(const SourceImage& source_image) {
  if (folder_.empty()) return;
  if (source_image.frame < 0) return vision::encode_image(source_image.image, result_of(source_image.path));
  if (!video_) video_.emplace(video_name_, source_image.image.width, source_image.image.height, fps_);
  video_->add(source_image.image);
}

void Gallery::finish() {
  if (video_) video_->finish();
}

}  // namespace tenon::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/gallery.h"

#include <filesystem>

#include "vision/decode.h"

namespace fs = std::filesystem;

namespace tenon::cli {

Gallery::Gallery(const std::string& folder, const std::string& source) : folder_(folder) {
  if (folder.empty()) return;
  std::error_code fault;
  fs::create_directories(folder, fault);
  if (!fs::is_directory(folder))
    throw Error(Code::io, "cannot make the folder for the results",
                {.where = folder, .why = fault ? fault.message() : "a file has this name"});
  const fs::path from = fs::is_directory(source) ? fs::path(source) : fs::path(source).parent_path();
  const bool same_folder = fs::equivalent(folder, from.empty() ? fs::path(".") : from, fault);
  fps_ = frame_rate(source);
  if (fps_ > 0) video_name_ = (fs::path(folder) / fs::path(source).stem()).string() + ".mp4";
  if (same_folder && (fps_ == 0 || fs::equivalent(video_name_, source, fault)))
    throw Error(Code::usage, "the results would replace the source",
                {.where = "-o " + folder, .hint = "give another folder"});
}

void Gallery::add(const SourceImage& source_image) {
  if (folder_.empty()) return;
  if (source_image.frame < 0)
    return vision::encode_image(source_image.image,
                                (fs::path(folder_) / fs::path(source_image.path).filename()).string());
  if (!video_) video_.emplace(video_name_, source_image.image.width, source_image.image.height, fps_);
  video_->add(source_image.image);
}

void Gallery::finish() {
  if (video_) video_->finish();
}

}  // namespace tenon::cli

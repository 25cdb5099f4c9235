// SPDX-License-Identifier: Apache-2.0
#include "cli/gallery.h"

#include <filesystem>
#include <utility>

#include "base/entries.h"
#include "cli/paths.h"
#include "vision/decode.h"

namespace fs = std::filesystem;

namespace tenon::cli {

Gallery::Gallery(const std::string& folder, const Source& source, int stride) : folder_(folder), stride_(stride) {
  if (folder.empty()) return;
  if (source.is_stream()) stream_ = vision::shown_address(source.files()[0]);
  for (const std::string& file : source.files())
    if (is_there(file)) paths().read("--source", file);
  for (const std::string& file : source.files())
    paths().write_below("-o", result_of(source.is_stream() ? stream_ : file));
}

std::string Gallery::result_of(const std::string& file) const {
  if (!stream_.empty()) {
    if (file.starts_with("/dev/")) return (fs::path(folder_) / fs::path(file).filename()).string() + ".mp4";
    const fs::path last = fs::path(file.substr(file.find("://") + 3, file.find_first_of("?#") - file.find("://") - 3));
    const std::string stem = last.has_parent_path() ? last.stem().string() : "";
    return (fs::path(folder_) / (stem.empty() ? "stream" : stem)).string() + ".mp4";
  }
  const fs::path name = fs::path(file).filename();
  if (is_video_file(file)) return (fs::path(folder_) / name.stem()).string() + ".mp4";
  const std::string result = (fs::path(folder_) / name).string();
  return vision::is_writable_image_name(file) ? result : result + ".jpg";
}

void Gallery::add(const SourceImage& source_image) {
  if (folder_.empty()) return;
  if (!std::exchange(made_, true)) make_folder(folder_);
  const std::string& path = source_image.path;
  if (source_image.frame < 0) return vision::encode_image(source_image.image, result_of(path));
  if (video_source_ != path) {
    finish();
    video_.emplace(result_of(path), source_image.image.width, source_image.image.height, source_image.fps / stride_);
    video_source_ = path;
  }
  video_->add(source_image.image);
}

void Gallery::finish() {
  if (video_) video_->finish();
  video_.reset();
  video_source_.clear();
}

}  // namespace tenon::cli

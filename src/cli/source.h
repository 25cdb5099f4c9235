// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/images.h"

namespace tenon::cli {

/// Whether a word names files by *, ?, [ ] or { }.
bool is_pattern(const std::string& word);

/// An image, or the rest of a video, that could not be read.
struct Unread {
  std::string path, why;
};

/// What --source stands for: an image, a video, a folder of them (by name, not below it), a quoted pattern as
/// "images/**/*.{jpg,png}", the address of a stream, or a list, which is a .txt file with a path, a folder or a pattern
/// in each line, from here or from beside the list.
class Source {
 public:
  /// `more` stands for itself in the same way, but is no stream. Throws Error(io) where there is nothing of a name, or
  /// no image.
  explicit Source(const std::string& word, const std::vector<std::string>& more = {});
  /// Images and videos in order.
  const std::vector<std::string>& files() const { return files_; }
  /// Whether all of them are videos.
  bool is_video() const;
  /// Whether it is the address of a stream, which only the command's own word can be.
  bool is_stream() const { return is_stream_; }
  /// Images, and frames as videos tell them; 0 where one does not.
  int64_t items() const;
  /// "frame" of videos alone, else "image".
  const char* noun() const { return is_video() ? "frame" : "image"; }
  /// Calls `each` for all images and frames. What cannot be read is named on stderr and passed over, and so is the
  /// damaged rest of a video; gives those. Throws Error(io) where there is one file alone and nothing can
  /// be read.
  std::vector<Unread> for_each(const std::function<void(SourceImage&)>& each) const;

 private:
  void add(const std::string& word);
  void add_files(const std::string& word);
  bool is_stream_ = false;
  std::vector<std::string> files_;
};

/// Whether a file is read as a video.
bool is_video_file(const std::string& path);

}  // namespace tenon::cli

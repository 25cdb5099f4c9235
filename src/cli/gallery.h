// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "cli/source.h"
#include "vision/video.h"

namespace tenon::cli {

/// The folder of -o: images under their own names, with .jpg behind them where they are neither JPEG nor PNG, and each
/// video as an MP4 file.
class Gallery {
 public:
  /// The folder is made when there is something to put into it; with "" nothing is done. A video has one frame in
  /// `stride`. Throws Error(usage) where a result would replace an input or another result, Error(io).
  Gallery(const std::string& folder, const Source& source, int stride = 1);
  bool wanted() const { return !folder_.empty(); }
  void add(const SourceImage& source_image);
  void finish();

 private:
  /// Where the result of an image or a video goes.
  std::string result_of(const std::string& file) const;

  std::string folder_, video_source_, stream_;  // `stream_` is the address, of streams
  int stride_ = 1;
  bool made_ = false;
  std::optional<vision::VideoWriter> video_;  // of `video_source_`
};

}  // namespace tenon::cli

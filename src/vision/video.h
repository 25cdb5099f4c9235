// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "vision/image.h"

namespace tenon::vision {

/// Whether this build can read and write video (FFmpeg was there when it was made).
bool video_available();
/// Whether the name ends like a video (.mp4, .mov, .mkv, .webm, .avi, .m4v, .ts).
bool is_video_name(const std::string& path);

/// Whether a word is the address of a stream: http, https, rtsp or rtsps, or the number of a camera (V4L2).
bool is_stream_address(const std::string& word);
/// The address without user name and password, for messages and reports; of a camera its device.
std::string shown_address(const std::string& address);

struct StreamOptions {
  double timeout_seconds = 10;      ///< without data until the stream counts as broken
  std::function<bool()> cancelled;  ///< asked while waiting; true ends the stream
};

/// Reads the first video stream of a local file, frame by frame, as RGB in the stored size.
/// Throws Error(io) where the file is not a video, Error(resource) for frames above max_pixels, Error(unsupported)
/// without FFmpeg.
class VideoReader {
 public:
  explicit VideoReader(const std::string& path);
  /// The same of an address. A connection that breaks is made again: where the stream has a length from there on, else
  /// from what is sent then, up to five times. Throws Error(io) where there is no connection, too.
  VideoReader(const std::string& address, StreamOptions options);
  ~VideoReader();
  VideoReader(VideoReader&&) noexcept;
  VideoReader& operator=(VideoReader&&) noexcept;

  /// Gives the next frame, reusing the image's memory; false at the end. A damaged frame is passed over.
  bool next(Image& frame);
  /// Whether it is a stream without a length, whose frames come when they come.
  bool is_live() const;
  /// What was wrong with the file as far as it has been read; "" for nothing.
  std::string fault() const;
  int width() const;
  int height() const;
  /// Frames per second; 25 where the file does not say.
  double fps() const;
  /// Number of frames as the file states it or as length and rate give it; 0 where unknown.
  int64_t frames() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Writes an MP4 file: H.264 where the build's FFmpeg has libx264, else MPEG-4 part 2. Odd sizes gain a repeated row or
/// column. The file appears under its name at finish(); without that nothing stays. Throws Error(io), and
/// Error(unsupported) without FFmpeg.
class VideoWriter {
 public:
  VideoWriter(const std::string& path, int width, int height, double fps);
  ~VideoWriter();
  VideoWriter(VideoWriter&&) noexcept;
  VideoWriter& operator=(VideoWriter&&) noexcept;

  /// Throws Error(usage) where the frame has another size than the video.
  void add(const Image& frame);
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::vision

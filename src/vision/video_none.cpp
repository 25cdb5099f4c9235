// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include "vision/video.h"

namespace tenon::vision {
namespace {

[[noreturn]] void refuse(const std::string& path) {
  throw Error(Code::unsupported, "video needs FFmpeg",
              {.where = path,
               .why = "this build was made without it",
               .hint = "build with libavformat, libavcodec and libswscale, or use a folder of images"});
}

}  // namespace

struct VideoReader::Impl {};
struct VideoWriter::Impl {};

bool video_available() { return false; }
VideoReader::VideoReader(const std::string& path) { refuse(path); }
VideoReader::VideoReader(const std::string& address, StreamOptions) { refuse(shown_address(address)); }
VideoReader::~VideoReader() = default;
VideoReader::VideoReader(VideoReader&&) noexcept = default;
VideoReader& VideoReader::operator=(VideoReader&&) noexcept = default;
bool VideoReader::next(Image&) { return false; }
bool VideoReader::is_live() const { return false; }
std::string VideoReader::fault() const { return ""; }
int VideoReader::width() const { return 0; }
int VideoReader::height() const { return 0; }
double VideoReader::fps() const { return 0; }
int64_t VideoReader::frames() const { return 0; }

VideoWriter::VideoWriter(const std::string& path, int, int, double) { refuse(path); }
VideoWriter::~VideoWriter() = default;
VideoWriter::VideoWriter(VideoWriter&&) noexcept = default;
VideoWriter& VideoWriter::operator=(VideoWriter&&) noexcept = default;
void VideoWriter::add(const Image&) {}
void VideoWriter::finish() {}

}  // namespace tenon::vision

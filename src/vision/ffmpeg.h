// SPDX-License-Identifier: Apache-2.0
#pragma once
extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libswscale/swscale.h>
}

#include <memory>
#include <string>

namespace tenon::vision {

struct FfmpegDeleter {
  void operator()(AVCodecContext* codec) const { avcodec_free_context(&codec); }
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
  void operator()(SwsContext* scaler) const { sws_freeContext(scaler); }
};
template <class T>
using FfmpegPtr = std::unique_ptr<T, FfmpegDeleter>;

/// FFmpeg writes to stderr by itself; what matters comes back as status codes.
inline void quiet_ffmpeg() {
  static const bool once = (av_log_set_level(AV_LOG_QUIET), true);
  static_cast<void>(once);
}

inline std::string ffmpeg_text(int status) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(status, text, sizeof text);
  return text;
}

}  // namespace tenon::vision

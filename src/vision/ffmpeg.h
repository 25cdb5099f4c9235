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

/// FFmpeg, opened when the first video is: with its hundred libraries the command would start three times as slowly.
namespace tenon::vision {

#define TENON_AVUTIL_FUNCTIONS(apply) \
  apply(av_d2q) apply(av_dict_free) apply(av_dict_set) apply(av_frame_alloc) apply(av_frame_free) \
  apply(av_frame_get_buffer) apply(av_frame_make_writable) apply(av_frame_unref) apply(av_opt_set) \
  apply(av_log_set_level) apply(av_strerror)

#define TENON_AVCODEC_FUNCTIONS(apply) \
  apply(av_packet_alloc) apply(av_packet_free) apply(av_packet_rescale_ts) apply(av_packet_unref) \
  apply(avcodec_alloc_context3) apply(avcodec_find_encoder) apply(avcodec_find_encoder_by_name) \
  apply(avcodec_free_context) apply(avcodec_open2) apply(avcodec_parameters_from_context) \
  apply(avcodec_parameters_to_context) apply(avcodec_receive_frame) apply(avcodec_receive_packet) \
  apply(avcodec_send_frame) apply(avcodec_send_packet)

#define TENON_AVFORMAT_FUNCTIONS(apply) \
  apply(av_find_best_stream) apply(av_find_input_format) apply(av_guess_frame_rate) apply(av_interleaved_write_frame) \
  apply(av_read_frame) \
  apply(av_write_trailer) apply(avformat_alloc_context) apply(avformat_alloc_output_context2) \
  apply(avformat_close_input) \
  apply(avformat_find_stream_info) apply(avformat_free_context) apply(avformat_index_get_entries_count) \
  apply(avformat_index_get_entry) apply(avformat_new_stream) apply(avformat_open_input) \
  apply(avformat_write_header) apply(avio_closep) apply(avio_open) apply(avio_size)

#define TENON_SWSCALE_FUNCTIONS(apply) \
  apply(sws_freeContext) apply(sws_getCoefficients) apply(sws_getContext) apply(sws_scale) \
  apply(sws_setColorspaceDetails)

/// Its functions, by their own names.
struct Ffmpeg {
#define TENON_FFMPEG_MEMBER(name) decltype(&::name) name = nullptr;
  TENON_AVUTIL_FUNCTIONS(TENON_FFMPEG_MEMBER)
  TENON_AVCODEC_FUNCTIONS(TENON_FFMPEG_MEMBER)
  TENON_AVFORMAT_FUNCTIONS(TENON_FFMPEG_MEMBER)
  TENON_SWSCALE_FUNCTIONS(TENON_FFMPEG_MEMBER)
#undef TENON_FFMPEG_MEMBER
  std::string why;  // it cannot be used; "" where it can
};
const Ffmpeg& av();
/// Throws Error(unsupported) naming the video where FFmpeg cannot be used.
void require_ffmpeg(const std::string& path);

/// FFmpeg's reader of cameras; nullptr where it has none.
const AVInputFormat* camera_format();

struct FfmpegDeleter {
  void operator()(AVCodecContext* codec) const { av().avcodec_free_context(&codec); }
  void operator()(AVFrame* frame) const { av().av_frame_free(&frame); }
  void operator()(AVPacket* packet) const { av().av_packet_free(&packet); }
  void operator()(SwsContext* scaler) const { av().sws_freeContext(scaler); }
};
template <class T>
using FfmpegPtr = std::unique_ptr<T, FfmpegDeleter>;

std::string ffmpeg_text(int status);

}  // namespace tenon::vision

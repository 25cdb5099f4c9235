// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "vision/ffmpeg.h"
#include "vision/video.h"

namespace tenon::vision {
namespace {

constexpr int max_video_side = 1 << 14;

const AVCodec* encoder() {
  const AVCodec* found = av().avcodec_find_encoder_by_name("libx264");
  return found ? found : av().avcodec_find_encoder(AV_CODEC_ID_MPEG4);
}

}  // namespace

struct VideoWriter::Impl {
  std::string path;
  std::unique_ptr<NewFile> file;
  int width = 0, height = 0;
  AVFormatContext* format = nullptr;
  FfmpegPtr<AVCodecContext> codec;
  FfmpegPtr<AVFrame> frame{av().av_frame_alloc()};
  FfmpegPtr<AVPacket> packet{av().av_packet_alloc()};
  FfmpegPtr<SwsContext> scaler;
  std::vector<uint8_t> even;
  int64_t count = 0;

  ~Impl() { close(); }
  void close() {
    if (!format) return;
    av().avio_closep(&format->pb);
    av().avformat_free_context(format);
    format = nullptr;
  }
  void check(int status) const {
    if (status < 0) throw Error(Code::io, "cannot write the video", {.where = path, .why = ffmpeg_text(status)});
  }

  void open(double fps) {
    const AVCodec* found = encoder();
    if (!found)
      throw Error(Code::unsupported, "cannot write the video",
                  {.where = path, .why = "this FFmpeg has neither libx264 nor an MPEG-4 encoder"});
    check(av().avformat_alloc_output_context2(&format, nullptr, "mp4", nullptr));
    codec.reset(av().avcodec_alloc_context3(found));
    if (!codec || !frame || !packet) throw Error(Code::resource, "out of memory", {.where = path});
    codec->width = (width + 1) / 2 * 2;
    codec->height = (height + 1) / 2 * 2;
    codec->pix_fmt = AV_PIX_FMT_YUV420P;
    codec->time_base = av_inv_q(av().av_d2q(fps, 60000));
    codec->framerate = av_inv_q(codec->time_base);
    codec->thread_count = 0;
    if (found->id == AV_CODEC_ID_MPEG4) {
      // MPEG-4 measures time in at most 16 bits of ticks, and looks good at a fixed fine quantiser.
      codec->flags |= AV_CODEC_FLAG_QSCALE;
      codec->global_quality = 3 * FF_QP2LAMBDA;
    } else {
      av().av_opt_set(codec->priv_data, "crf", "20", 0);
      av().av_opt_set(codec->priv_data, "preset", "veryfast", 0);
    }
    if (format->oformat->flags & AVFMT_GLOBALHEADER) codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    check(av().avcodec_open2(codec.get(), found, nullptr));
    AVStream* stream = av().avformat_new_stream(format, nullptr);
    if (!stream) throw Error(Code::resource, "out of memory", {.where = path});
    stream->time_base = codec->time_base;
    stream->avg_frame_rate = codec->framerate;
    check(av().avcodec_parameters_from_context(stream->codecpar, codec.get()));
    file = std::make_unique<NewFile>(path);
    check(av().avio_open(&format->pb, ("file:" + file->temporary()).c_str(), AVIO_FLAG_WRITE));
    check(av().avformat_write_header(format, nullptr));
    frame->format = codec->pix_fmt;
    frame->width = codec->width;
    frame->height = codec->height;
    check(av().av_frame_get_buffer(frame.get(), 0));
    scaler.reset(av().sws_getContext(codec->width, codec->height, AV_PIX_FMT_RGB24, codec->width, codec->height,
                                     codec->pix_fmt, SWS_BICUBIC | SWS_ACCURATE_RND, nullptr, nullptr, nullptr));
    if (!scaler)
      throw Error(Code::io, "cannot write the video", {.where = path, .why = "its size cannot be converted"});
  }

  void send(const AVFrame* frame) {
    check(av().avcodec_send_frame(codec.get(), frame));
    while (true) {
      const int status = av().avcodec_receive_packet(codec.get(), packet.get());
      if (status == AVERROR(EAGAIN) || status == AVERROR_EOF) return;
      check(status);
      packet->duration = 1;
      av().av_packet_rescale_ts(packet.get(), codec->time_base, format->streams[0]->time_base);
      packet->stream_index = 0;
      check(av().av_interleaved_write_frame(format, packet.get()));
    }
  }

  /// Copies the frame to even sides and rows of whole vectors.
  int spread(const Image& image) {
    const size_t pitch = (static_cast<size_t>(codec->width) * 3 + 63) / 64 * 64;
    even.resize(pitch * static_cast<size_t>(codec->height) + 64);
    for (int y = 0; y < codec->height; ++y) {
      uint8_t* row = even.data() + static_cast<size_t>(y) * pitch;
      std::memcpy(row, image.row(std::min(y, height - 1)), image.pitch());
      if (codec->width > width) std::memcpy(row + image.pitch(), row + image.pitch() - 3, 3);
    }
    return static_cast<int>(pitch);
  }
};

VideoWriter::VideoWriter(const std::string& path, int width, int height, double fps)
    : impl_((require_ffmpeg(path), std::make_unique<Impl>())) {
  if (width <= 0 || height <= 0 || width > max_video_side || height > max_video_side || !(fps > 0 && fps <= 1000))
    throw Error(Code::usage, "cannot write a video of this size and rate",
                {.where = path, .why = std::to_string(width) + "x" + std::to_string(height)});
  impl_->path = path;
  impl_->width = width;
  impl_->height = height;
  impl_->open(fps);
}
VideoWriter::~VideoWriter() = default;
VideoWriter::VideoWriter(VideoWriter&&) noexcept = default;
VideoWriter& VideoWriter::operator=(VideoWriter&&) noexcept = default;

void VideoWriter::add(const Image& image) {
  Impl& to = *impl_;
  if (image.width != to.width || image.height != to.height || !to.format)
    throw Error(Code::usage, "cannot add the frame to the video",
                {.where = to.path, .why = to.format ? "it has another size" : "the video is finished"});
  to.check(av().av_frame_make_writable(to.frame.get()));
  const int pitches[] = {to.spread(image), 0, 0, 0};
  const uint8_t* planes[] = {to.even.data(), nullptr, nullptr, nullptr};
  to.check(av().sws_scale(to.scaler.get(), planes, pitches, 0, to.codec->height, to.frame->data, to.frame->linesize));
  if (to.codec->flags & AV_CODEC_FLAG_QSCALE) to.frame->quality = to.codec->global_quality;
  to.frame->pts = to.count++;
  to.send(to.frame.get());
}

void VideoWriter::finish() {
  Impl& to = *impl_;
  if (!to.format) return;
  to.send(nullptr);
  to.check(av().av_write_trailer(to.format));
  to.close();
  to.file->commit();
}

}  // namespace tenon::vision

// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "vision/ffmpeg.h"
#include "vision/video.h"

namespace tenon::vision {
namespace {

// Only containers that hold their data themselves: a playlist could name other files or hosts.
constexpr const char* containers = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,flv,ivf,m4v,h264,hevc,mjpeg";
// A stream's own, and what cameras send over HTTP.
constexpr const char* stream_containers =
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,flv,ivf,m4v,h264,hevc,mjpeg,mpjpeg,rtsp,sdp";
constexpr const char* http_protocols = "http,https,tcp,tls,crypto";
constexpr const char* rtsp_protocols = "rtsp,rtsps,rtp,rtcp,udp,tcp,tls,crypto";
constexpr int most_connections = 6;  // the first and five more
constexpr int max_damaged_packets = 1000;
constexpr double default_fps = 25;

}  // namespace

struct VideoReader::Impl {
  std::string path;  // as messages name it
  std::string address;
  StreamOptions stream_options;
  std::chrono::steady_clock::time_point deadline;
  int connections = 0;
  AVFormatContext* format = nullptr;
  FfmpegPtr<AVCodecContext> codec;
  FfmpegPtr<AVFrame> frame{av().av_frame_alloc()};
  FfmpegPtr<AVPacket> packet{av().av_packet_alloc()};
  FfmpegPtr<SwsContext> scaler;
  int stream = -1, scaled_width = 0, scaled_height = 0, scaled_format = -1, damaged = 0;
  bool drained = false, cut = false;

  ~Impl() { av().avformat_close_input(&format); }

  [[noreturn]] void fail(const std::string& what, std::string why) const {
    throw Error(Code::io, what, {.where = path, .why = std::move(why)});
  }
  void check(int status, const char* what) const {
    if (status < 0) fail(what, ffmpeg_text(status));
  }

  /// From now on a call may wait so long.
  void start_waiting() {
    const auto wait = std::chrono::duration<double>(stream_options.timeout_seconds);
    deadline = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(wait);
  }
  bool cancelled() const { return stream_options.cancelled && stream_options.cancelled(); }
  static int is_late(void* self) {
    const auto* impl = static_cast<const Impl*>(self);
    return impl->cancelled() || std::chrono::steady_clock::now() > impl->deadline;
  }
  std::string text_of(int status) const {
    if (status != AVERROR_EXIT) return ffmpeg_text(status);
    return cancelled() ? "it was interrupted"
                       : "nothing came for " + std::to_string(std::lrint(stream_options.timeout_seconds)) + " s";
  }

  int open_file() {
    AVDictionary* options = nullptr;
    av().av_dict_set(&options, "protocol_whitelist", "file", 0);
    av().av_dict_set(&options, "format_whitelist", containers, 0);
    const int status = av().avformat_open_input(&format, ("file:" + path).c_str(), nullptr, &options);
    av().av_dict_free(&options);
    return status;
  }

  int open_stream() {
    ++connections;
    format = av().avformat_alloc_context();
    if (!format) throw Error(Code::resource, "out of memory", {.where = path});
    format->interrupt_callback = {&Impl::is_late, this};
    AVDictionary* options = nullptr;
    const auto set = [&](const char* key, const char* value) { av().av_dict_set(&options, key, value, 0); };
    const bool camera = path.starts_with("/dev/"), http = address.starts_with("http");
    const AVInputFormat* input = camera ? camera_format() : nullptr;
    if (camera && !input)
      throw Error(Code::unsupported, "cameras need FFmpeg's libavdevice",
                  {.where = path, .hint = "install it (apt-get install ffmpeg)"});
    if (camera) {
      set("protocol_whitelist", "file");
    } else {
      set("protocol_whitelist", http ? http_protocols : rtsp_protocols);
      set("format_whitelist", stream_containers);
    }
    if (camera) {
      // What the camera prefers.
    } else if (http) {
      set("reconnect", "1"), set("reconnect_streamed", "1"), set("reconnect_delay_max", "4");
    } else {
      set("rtsp_transport", "tcp");
    }
    start_waiting();
    const int status = av().avformat_open_input(&format, camera ? path.c_str() : address.c_str(), input, &options);
    av().av_dict_free(&options);
    start_waiting();
    return status;
  }

  void open() {
    const int status = address.empty() ? open_file() : open_stream();
    if (status < 0) fail(address.empty() ? "cannot open the video" : "cannot open the stream", text_of(status));
    check(av().avformat_find_stream_info(format, nullptr), "cannot read the video");
    const AVCodec* decoder = nullptr;
    stream = av().av_find_best_stream(format, AVMEDIA_TYPE_VIDEO, -1, -1, &decoder, 0);
    if (stream < 0 || !decoder) fail("cannot open the video", "it has no video stream that this FFmpeg can decode");
    codec.reset(av().avcodec_alloc_context3(decoder));
    if (!codec) throw Error(Code::resource, "out of memory", {.where = path});
    check(av().avcodec_parameters_to_context(codec.get(), format->streams[stream]->codecpar), "cannot open the video");
    codec->max_pixels = max_pixels;
    if (static_cast<int64_t>(codec->width) * codec->height > max_pixels)
      throw Error(
          Code::resource, "the video is too large",
          {.where = path, .why = std::to_string(codec->width) + "x" + std::to_string(codec->height) + " pixels"});
    check(av().avcodec_open2(codec.get(), decoder, nullptr), "cannot open the video");
  }

  /// Whether the container's index points behind the end of the file.
  bool lacks_bytes() const {
    const int64_t size = av().avio_size(format->pb);
    const int count = av().avformat_index_get_entries_count(format->streams[stream]);
    for (int at = 0; at < count; ++at) {
      const AVIndexEntry* entry = av().avformat_index_get_entry(format->streams[stream], at);
      if (size >= 0 && entry && entry->pos > size - entry->size) return true;
    }
    return false;
  }

  /// Decodes one frame into `frame`; false at the end.
  bool decode() {
    while (true) {
      const int status = av().avcodec_receive_frame(codec.get(), frame.get());
      if (status == 0) return true;
      if (status == AVERROR_EOF) return false;
      if (status != AVERROR(EAGAIN)) {
        if (++damaged > max_damaged_packets || drained) fail("cannot decode the video", ffmpeg_text(status));
        continue;
      }
      feed();
    }
  }

  /// Whether a live stream goes on after a new connection.
  bool connect_again() {
    if (address.empty() || format->duration > 0) return false;
    while (connections < most_connections && !cancelled()) {
      const auto begin = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(1) && !cancelled())
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      AVFormatContext* before = std::exchange(format, nullptr);
      const int stream_before = stream;
      try {
        open();
        av().avformat_close_input(&before);
        return true;
      } catch (const Error&) {
        av().avformat_close_input(&format);
        format = before, stream = stream_before;
      }
    }
    return false;
  }

  void feed() {
    while (!drained) {
      start_waiting();
      const int status = av().av_read_frame(format, packet.get());
      if (status < 0 && status != AVERROR_EOF && connect_again()) continue;
      if (status < 0) {
        drained = true;
        cut = status != AVERROR_EOF || lacks_bytes();
        av().avcodec_send_packet(codec.get(), nullptr);
        return;
      }
      const bool ours = packet->stream_index == stream;
      if (ours && (packet->flags & AV_PKT_FLAG_CORRUPT)) ++damaged;
      const int sent = ours ? av().avcodec_send_packet(codec.get(), packet.get()) : 0;
      av().av_packet_unref(packet.get());
      if (sent < 0 && ++damaged > max_damaged_packets) fail("cannot decode the video", ffmpeg_text(sent));
      if (ours && sent >= 0) return;
    }
  }

  void convert(Image& out) {
    const int width = frame->width, height = frame->height;
    if (width <= 0 || height <= 0 || static_cast<int64_t>(width) * height > max_pixels)
      fail("cannot decode the video", "a frame has no usable size");
    if (!scaler || width != scaled_width || height != scaled_height || frame->format != scaled_format) {
      const auto format_in = static_cast<AVPixelFormat>(frame->format);
      scaler.reset(av().sws_getContext(width, height, format_in, width, height, AV_PIX_FMT_RGB24,
                                       SWS_BICUBIC | SWS_ACCURATE_RND, nullptr, nullptr, nullptr));
      if (!scaler) fail("cannot decode the video", "its pixel format cannot be converted to RGB");
      const int matrix = frame->colorspace == AVCOL_SPC_UNSPECIFIED ? SWS_CS_DEFAULT : frame->colorspace;
      av().sws_setColorspaceDetails(scaler.get(), av().sws_getCoefficients(matrix),
                                    frame->color_range == AVCOL_RANGE_JPEG, av().sws_getCoefficients(SWS_CS_DEFAULT), 1,
                                    0, 1 << 16, 1 << 16);
      scaled_width = width;
      scaled_height = height;
      scaled_format = frame->format;
    }
    if (out.width != width || out.height != height) out = Image(width, height);
    // The converter writes whole vectors: rows go through a padded buffer where the image's own are not long enough.
    const int pitch = (width * 3 + 63) / 64 * 64;
    buffer.resize(static_cast<size_t>(pitch) * static_cast<size_t>(height) + 64);
    uint8_t* planes[] = {buffer.data(), nullptr, nullptr, nullptr};
    const int pitches[] = {pitch, 0, 0, 0};
    check(av().sws_scale(scaler.get(), frame->data, frame->linesize, 0, height, planes, pitches),
          "cannot decode the video");
    for (int y = 0; y < height; ++y)
      std::copy_n(buffer.data() + static_cast<size_t>(y) * static_cast<size_t>(pitch), out.pitch(), out.row(y));
  }

  std::vector<uint8_t> buffer;
};

VideoReader::VideoReader(const std::string& path) : impl_((require_ffmpeg(path), std::make_unique<Impl>())) {
  impl_->path = path;
  if (!impl_->frame || !impl_->packet) throw Error(Code::resource, "out of memory", {.where = path});
  impl_->open();
}
VideoReader::VideoReader(const std::string& address, StreamOptions options)
    : impl_((require_ffmpeg(shown_address(address)), std::make_unique<Impl>())) {
  impl_->path = shown_address(address), impl_->address = address;
  impl_->stream_options = std::move(options);
  if (!impl_->frame || !impl_->packet) throw Error(Code::resource, "out of memory", {.where = impl_->path});
  impl_->open();
}
VideoReader::~VideoReader() = default;
VideoReader::VideoReader(VideoReader&&) noexcept = default;
VideoReader& VideoReader::operator=(VideoReader&&) noexcept = default;

bool VideoReader::next(Image& frame) {
  if (!impl_->decode()) return false;
  impl_->convert(frame);
  av().av_frame_unref(impl_->frame.get());
  return true;
}

bool VideoReader::is_live() const { return !impl_->address.empty() && impl_->format->duration <= 0; }

std::string VideoReader::fault() const {
  if (impl_->cut) return "it ends in the middle";
  return impl_->damaged > 0 ? std::to_string(impl_->damaged) + " parts of it cannot be decoded" : "";
}
int VideoReader::width() const { return impl_->codec->width; }
int VideoReader::height() const { return impl_->codec->height; }

double VideoReader::fps() const {
  const AVRational rate = av().av_guess_frame_rate(impl_->format, impl_->format->streams[impl_->stream], nullptr);
  const double fps = rate.den > 0 ? av_q2d(rate) : 0;
  return fps > 0 && fps <= 1000 ? fps : default_fps;
}

int64_t VideoReader::frames() const {
  const int64_t stated = impl_->format->streams[impl_->stream]->nb_frames;
  if (stated > 0) return stated;
  const double seconds = static_cast<double>(impl_->format->duration) / AV_TIME_BASE;
  return impl_->format->duration > 0 && seconds < 1e9 ? std::llround(seconds * fps()) : 0;
}

}  // namespace tenon::vision

// SPDX-License-Identifier: Apache-2.0
#include "vision/ffmpeg.h"

#include <dlfcn.h>
#include <tenon/error.h>

#include "vision/video.h"

namespace tenon::vision {
namespace {

/// The library of the version that the headers are of.
void* open_library(const char* name, int version, std::string& why) {
  const std::string file = "lib" + std::string(name) + ".so." + std::to_string(version);
  void* handle = why.empty() ? dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!handle && why.empty()) why = file + " was not found";
  return handle;
}

template <class F>
void find(void* handle, const char* name, F& function, std::string& why) {
  function = handle ? reinterpret_cast<F>(dlsym(handle, name)) : nullptr;
  if (!function && why.empty()) why = std::string("FFmpeg has no ") + name;
}

Ffmpeg open_ffmpeg() {
  Ffmpeg all;
  void* const avutil = open_library("avutil", LIBAVUTIL_VERSION_MAJOR, all.why);
  void* const avcodec = open_library("avcodec", LIBAVCODEC_VERSION_MAJOR, all.why);
  void* const avformat = open_library("avformat", LIBAVFORMAT_VERSION_MAJOR, all.why);
  void* const swscale = open_library("swscale", LIBSWSCALE_VERSION_MAJOR, all.why);
#define TENON_FIND(name) find(handle, #name, all.name, all.why);
  void* handle = avutil;
  TENON_AVUTIL_FUNCTIONS(TENON_FIND)
  handle = avcodec;
  TENON_AVCODEC_FUNCTIONS(TENON_FIND)
  handle = avformat;
  TENON_AVFORMAT_FUNCTIONS(TENON_FIND)
  handle = swscale;
  TENON_SWSCALE_FUNCTIONS(TENON_FIND)
#undef TENON_FIND
  // It writes to stderr by itself; what matters comes back as status codes.
  if (all.why.empty()) all.av_log_set_level(AV_LOG_QUIET);
  return all;
}

}  // namespace

const Ffmpeg& av() {
  static const Ffmpeg all = open_ffmpeg();
  return all;
}

void require_ffmpeg(const std::string& path) {
  if (!av().why.empty())
    throw Error(
        Code::unsupported, "video needs FFmpeg",
        {.where = path, .why = av().why, .hint = "install it (apt-get install ffmpeg), or use a folder of images"});
}

const AVInputFormat* camera_format() {
  // FFmpeg numbers this library as it does avformat.
  static const bool there = [] {
    std::string why;
    void (*register_all)() = nullptr;
    find(open_library("avdevice", LIBAVFORMAT_VERSION_MAJOR, why), "avdevice_register_all", register_all, why);
    if (register_all) register_all();
    return register_all != nullptr;
  }();
  return there ? av().av_find_input_format("video4linux2") : nullptr;
}

bool video_available() { return av().why.empty(); }

std::string ffmpeg_text(int status) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av().av_strerror(status, text, sizeof text);
  return text;
}

}  // namespace tenon::vision

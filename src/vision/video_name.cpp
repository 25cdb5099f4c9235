// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <string_view>

#include "vision/video.h"

namespace tenon::vision {

bool is_video_name(const std::string& path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string::npos) return false;
  std::string end = path.substr(dot);
  for (char& letter : end) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  for (const std::string_view known : {".mp4", ".mov", ".mkv", ".webm", ".avi", ".m4v", ".ts"})
    if (end == known) return true;
  return false;
}

namespace {
bool is_camera(const std::string& word) {
  constexpr size_t most_digits = 3;
  return !word.empty() && word.size() <= most_digits && word.find_first_not_of("0123456789") == std::string::npos;
}
}  // namespace

bool is_stream_address(const std::string& word) {
  if (is_camera(word)) return true;
  for (const std::string_view scheme : {"http://", "https://", "rtsp://", "rtsps://"})
    if (word.size() > scheme.size() && std::string_view(word).substr(0, scheme.size()) == scheme) return true;
  return false;
}

std::string shown_address(const std::string& address) {
  if (is_camera(address)) return "/dev/video" + address;
  const size_t begin = address.find("://");
  if (begin == std::string::npos) return address;
  const size_t host = begin + 3, end = address.find_first_of("/?#", host);
  const size_t at = address.substr(0, end).rfind('@');
  return at == std::string::npos || at < host ? address : address.substr(0, host) + address.substr(at + 1);
}

}  // namespace tenon::vision

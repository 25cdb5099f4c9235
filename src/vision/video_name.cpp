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

}  // namespace tenon::vision

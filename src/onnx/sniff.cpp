// SPDX-License-Identifier: Apache-2.0
#include "onnx/sniff.h"

#include <algorithm>
#include <cctype>

namespace tenon::onnx {

std::string looks_like(Bytes bytes) {
  using namespace std::string_view_literals;
  if (bytes.empty()) return "an empty file";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 512));
  static constexpr std::pair<std::string_view, const char*> magics[] = {
      {"PK\x03\x04"sv, "a zip archive (a PyTorch checkpoint is one)"},
      {"\x1f\x8b"sv, "a gzip archive"},
      {"\x89PNG"sv, "a PNG image"},
      {"\xff\xd8\xff"sv, "a JPEG image"},
      {"GIF8"sv, "a GIF image"},
      {"%PDF"sv, "a PDF document"},
      {"\x7f" "ELF"sv, "a program (ELF)"},
      {"\x89HDF"sv, "an HDF5 file (Keras weights)"},
      {"GGUF"sv, "a GGUF model"},
      {"\x93NUMPY"sv, "a NumPy array"},
      {"TENON\r\n\x1a"sv, "a Tenon engine"},
      {"ORTM"sv, "an ORT-format model"},
      {"version https://git-lfs"sv, "a Git LFS pointer (the file itself was not fetched)"},
      {"BZh"sv, "a bzip2 archive"},
      {"\xfd" "7zXZ"sv, "an xz archive"},
      {"\x28\xb5\x2f\xfd"sv, "a Zstandard archive"},
      {"RIFF"sv, "a RIFF file (WebP, WAV or AVI)"},
  };
  for (const auto& [magic, name] : magics)
    if (text.substr(0, magic.size()) == magic) return name;
  if (text.size() > 8 && (text.substr(4, 4) == "TFL3" || text.substr(4, 4) == "ORTM"))
    return text.substr(4, 4) == "TFL3" ? "a TensorFlow Lite model" : "an ORT-format model";
  if (text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5)
    return "a Python pickle (a PyTorch checkpoint)";
  if (text.size() > 262 && text.substr(257, 5) == "ustar") return "a tar archive";
  if (std::all_of(text.begin(), text.end(), [](char c) { return c == 0; })) return "a file of zeros";
  size_t start = text.substr(0, 3) == "\xef\xbb\xbf" ? 3 : 0;
  while (start < text.size() && std::isspace(static_cast<unsigned char>(text[start]))) ++start;
  std::string head(text.substr(start, 16));
  for (char& c : head) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (head.rfind("<!doctype", 0) == 0 || head.rfind("<html", 0) == 0) return "an HTML page";
  if (head.rfind("<?xml", 0) == 0) return "an XML file (an OpenVINO model is one)";
  if (head.rfind("{", 0) == 0) return "a JSON file";
  if (head.rfind("ir_version:", 0) == 0) return "an ONNX model in text form";
  return "";
}

}  // namespace tenon::onnx

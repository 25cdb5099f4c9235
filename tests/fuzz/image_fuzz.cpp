// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "support/command.h"
#include "target.h"
#include "vision/decode.h"
#include "vision/spec.h"

/// Images: JPEG with EXIF, PNG, BMP, TIFF, WebP; and the text of a preprocessing spec where the bytes are neither.
namespace tenon::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> files{"yolo,size=320x320", "center_crop=224x224,short=256,mean=0.5:0.5:0.5",
                                 "letterbox=640x640,scale=1/255,colour=rgb"};
  for (const auto& entry : std::filesystem::directory_iterator(TENON_SOURCE_DIR "/tests/vision/data"))
    if (vision::is_image_name(entry.path().string())) files.push_back(test::read_text(entry.path().string()));
  return files;
}

void eat(std::span<const uint8_t> bytes) {
  if (bytes.size() > 2 && bytes[0] != 0xff && bytes[0] != 0x89)
    vision::parse_spec({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  vision::decode_image(bytes, "x");
}

}  // namespace tenon::fuzz

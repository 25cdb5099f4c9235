// SPDX-License-Identifier: Apache-2.0
#include "cli/crops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>

#include "base/entries.h"
#include "base/file.h"
#include "cli/found.h"
#include "cli/paths.h"
#include "vision/decode.h"
#include "vision/labels.h"

namespace fs = std::filesystem;

namespace tenon::cli {
namespace {

/// A label as the name of a folder.
std::string folder_name(std::string label) {
  std::replace(label.begin(), label.end(), '/', '_');
  return label.empty() || label == "." || label == ".." ? "_" : label;
}

vision::Image cut(const vision::Image& image, const float box[4]) {
  const int x0 = std::clamp(static_cast<int>(std::floor(box[0])), 0, image.width);
  const int y0 = std::clamp(static_cast<int>(std::floor(box[1])), 0, image.height);
  const int x1 = std::clamp(static_cast<int>(std::ceil(box[2])), x0, image.width);
  const int y1 = std::clamp(static_cast<int>(std::ceil(box[3])), y0, image.height);
  vision::Image part(x1 - x0, y1 - y0);
  for (int y = y0; y < y1; ++y) std::memcpy(part.row(y - y0), image.row(y) + static_cast<size_t>(x0) * 3, part.pitch());
  return part;
}

}  // namespace

std::string stem_of(const SourceImage& source_image) {
  const std::string stem = fs::path(source_image.path).stem().string();
  return source_image.frame < 0 ? stem : fmt::format("{}_{}", stem, source_image.frame);
}

void require_stems(const Source& source, const std::string& option, const std::string& name) {
  std::map<std::string, std::string> seen;
  for (const std::string& file : source.files()) {
    const std::string stem = fs::path(file).stem().string() + (is_video_file(file) ? "_0" : "");
    const auto [other, is_new] = seen.try_emplace(stem, file);
    if (!is_new)
      throw Error(Code::usage, "two outputs would go to the same file",
                  {.where = option + " " + fmt::format(fmt::runtime(name), stem),
                   .why = other->second + " and " + file + " have one name",
                   .hint = "rename one of them, or give them one after the other with different -o"});
  }
}

Crops::Crops(const std::string& folder, bool text, bool crops, const Source& source)
    : folder_(folder), text_(text), crops_(crops) {
  if (text_) require_stems(source, "--save-txt", "labels/{}.txt");
  if (crops_) require_stems(source, "--save-crop", "crops/CLASS/{}_1.jpg");
}

void Crops::add_text(const SourceImage& source_image, const std::vector<vision::Detection>& found,
                     vision::Task task) const {
  std::string text;
  for (const vision::Detection& one : found)
    text += to_yolo(one, task, source_image.image.width, source_image.image.height);
  const std::string path = (fs::path(folder_) / "labels" / (stem_of(source_image) + ".txt")).string();
  make_folder((fs::path(folder_) / "labels").string());
  paths().write("--save-txt", path);
  write_atomically(path, std::as_bytes(std::span(text)));
}

void Crops::add(const SourceImage& source_image, const std::vector<vision::Detection>& found, vision::Task task,
                const std::vector<std::string>& labels) const {
  if (text_) add_text(source_image, found, task);
  if (!crops_) return;
  int number = 0;
  for (const vision::Detection& one : found) {
    const vision::Image part = cut(source_image.image, one.box);
    if (part.width == 0 || part.height == 0) continue;
    const fs::path folder = fs::path(folder_) / "crops" / folder_name(vision::label(labels, one.class_id));
    make_folder(folder.string());
    const std::string path = (folder / fmt::format("{}_{}.jpg", stem_of(source_image), ++number)).string();
    paths().write("--save-crop", path);
    vision::encode_image(part, path);
  }
}

}  // namespace tenon::cli

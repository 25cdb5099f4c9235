// SPDX-License-Identifier: Apache-2.0
#include "cli/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <iterator>

namespace tenon::cli {
namespace {

using Json = nlohmann::ordered_json;

// COCO's annotations count to 90 and leave out these.
constexpr int left_out[] = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83};
constexpr size_t coco_classes = 80;

int64_t coco_category(int64_t class_id) {
  int64_t number = class_id + 1;
  for (const int gap : left_out) number += number >= gap;
  return number;
}

/// The number that a file is named, as COCO's images are; `otherwise` where it has another name.
int64_t image_id(const Json& entry, int64_t otherwise) {
  if (entry.contains("frame")) return otherwise;
  const std::string stem = std::filesystem::path(entry["image"].get<std::string>()).stem().string();
  int64_t number = 0;
  const auto [end, fault] = std::from_chars(stem.data(), stem.data() + stem.size(), number);
  return fault == std::errc() && end == stem.data() + stem.size() && number >= 0 ? number : otherwise;
}

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted.append(letter == '"' ? 2 : 1, letter);
  return quoted + "\"";
}

}  // namespace

Json as_coco(const Json& detections, const std::vector<std::string>& labels) {
  const bool is_coco = labels.size() == coco_classes && labels[0] == "person" && labels.back() == "toothbrush";
  Json results = Json::array();
  int64_t place = 0;
  for (const Json& entry : detections) {
    const int64_t id = image_id(entry, ++place);
    for (const Json& one : entry["detections"]) {
      const auto box = one["box"].get<std::vector<double>>();
      const auto class_id = one["class"].get<int64_t>();
      results.push_back({{"image_id", id},
                         {"category_id", is_coco ? coco_category(class_id) : class_id + 1},
                         {"bbox", {box[0], box[1], box[2] - box[0], box[3] - box[1]}},
                         {"score", one["score"]}});
    }
  }
  return results;
}

std::string as_csv(const Json& detections) {
  std::string text = "image,frame,class,label,score,x1,y1,x2,y2\n";
  for (const Json& entry : detections)
    for (const Json& one : entry["detections"]) {
      const auto box = one["box"].get<std::vector<double>>();
      text += fmt::format("{},{},{},{},{:.6f},{:.2f},{:.2f},{:.2f},{:.2f}\n", field(entry["image"].get<std::string>()),
                          entry.contains("frame") ? entry["frame"].dump() : "", one["class"].get<int64_t>(),
                          field(one["label"].get<std::string>()), one["score"].get<double>(), box[0], box[1], box[2],
                          box[3]);
    }
  return text;
}

}  // namespace tenon::cli

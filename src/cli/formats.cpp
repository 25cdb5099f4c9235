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

int64_t category(int64_t class_id, const std::vector<std::string>& labels) {
  const bool is_coco = labels.size() == coco_classes && labels[0] == "person" && labels.back() == "toothbrush";
  // Such classes count from 1 already.
  if (!labels.empty() && (labels[0] == "__background__" || labels[0] == "background")) return class_id;
  return is_coco ? coco_category(class_id) : class_id + 1;
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

/// A detection's parts as COCO's results have them.
void add_parts(const Json& one, Json& result) {
  if (one.contains("mask")) result["segmentation"] = {{"size", one["mask"]["size"]}, {"counts", one["mask"]["counts"]}};
  if (one.contains("obb")) {
    Json polygon = Json::array();
    for (const Json& corner : one["obb"]["corners"])
      for (const Json& number : corner) polygon.push_back(number);
    result["segmentation"] = Json::array({std::move(polygon)});
  }
  if (one.contains("keypoints"))
    for (const Json& point : one["keypoints"])
      for (const Json& number : point) result["keypoints"].push_back(number);
}

/// The columns of a detection behind its box, each with a comma before it.
std::string columns_of(const Json& one, vision::Task task) {
  std::string text;
  if (task == vision::Task::segment && !one.contains("mask")) return ",,,";
  if (one.contains("mask"))
    text += fmt::format(",{},{},{}", one["mask"]["size"][0].get<int64_t>(), one["mask"]["size"][1].get<int64_t>(),
                        field(one["mask"]["counts"].get<std::string>()));
  if (one.contains("obb"))
    for (const char* key : {"cx", "cy", "w", "h", "angle"})
      text += fmt::format(",{:.4f}", one["obb"][key].get<double>());
  if (one.contains("keypoints"))
    for (const Json& point : one["keypoints"])
      text +=
          fmt::format(",{:.2f},{:.2f},{:.4f}", point[0].get<double>(), point[1].get<double>(), point[2].get<double>());
  return text;
}

}  // namespace

Json as_coco(const Json& detections, const std::vector<std::string>& labels) {
  Json results = Json::array();
  int64_t place = 0;
  for (const Json& entry : detections) {
    const int64_t id = image_id(entry, ++place);
    for (const Json& one : entry["detections"]) {
      const auto box = one["box"].get<std::vector<double>>();
      const auto class_id = one["class"].get<int64_t>();
      results.push_back({{"image_id", id},
                         {"category_id", category(class_id, labels)},
                         {"bbox", {box[0], box[1], box[2] - box[0], box[3] - box[1]}},
                         {"score", one["score"]}});
      add_parts(one, results.back());
    }
  }
  return results;
}

std::string as_csv(const Json& detections, vision::Task task, int64_t key_points) {
  std::string text = "image,frame,class,label,score,x1,y1,x2,y2";
  if (task == vision::Task::segment) text += ",mask_height,mask_width,mask_counts";
  if (task == vision::Task::obb) text += ",cx,cy,w,h,angle";
  for (int64_t at = 0; at < key_points; ++at) text += fmt::format(",x_{0},y_{0},score_{0}", at);
  text += "\n";
  for (const Json& entry : detections)
    for (const Json& one : entry["detections"]) {
      const auto box = one["box"].get<std::vector<double>>();
      text += fmt::format("{},{},{},{},{:.6f},{:.2f},{:.2f},{:.2f},{:.2f}", field(entry["image"].get<std::string>()),
                          entry.contains("frame") ? entry["frame"].dump() : "", one["class"].get<int64_t>(),
                          field(one["label"].get<std::string>()), one["score"].get<double>(), box[0], box[1], box[2],
                          box[3]);
      text += columns_of(one, task) + "\n";
    }
  return text;
}

Json segments_as_coco(const Json& segmentations, const std::vector<std::string>& labels) {
  Json results = Json::array();
  int64_t place = 0;
  for (const Json& entry : segmentations) {
    const int64_t id = image_id(entry, ++place);
    for (const Json& one : entry["classes"])
      results.push_back({{"image_id", id},
                         {"category_id", category(one["class"].get<int64_t>(), labels)},
                         {"segmentation", one["mask"]},
                         {"score", 1.0}});
  }
  return results;
}

std::string segments_as_csv(const Json& segmentations) {
  std::string text = "image,frame,class,label,pixels,share\n";
  for (const Json& entry : segmentations)
    for (const Json& one : entry["classes"])
      text +=
          fmt::format("{},{},{},{},{},{:.6f}\n", field(entry["image"].get<std::string>()),
                      entry.contains("frame") ? entry["frame"].dump() : "", one["class"].get<int64_t>(),
                      field(one["label"].get<std::string>()), one["pixels"].get<int64_t>(), one["share"].get<double>());
  return text;
}

}  // namespace tenon::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/found.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "base/counted.h"
#include "base/printable.h"
#include "vision/labels.h"
#include "vision/mask.h"
#include "vision/rotated.h"

namespace tenon::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr float seen_score = 0.25f;  // of a key point that counts as seen

Json oriented(const vision::Rotated& box) {
  Json around = Json::array();
  for (const vision::Point& corner : vision::corners(box)) around.push_back({corner.x, corner.y});
  return {{"cx", box.cx},    {"cy", box.cy},       {"w", box.width},
          {"h", box.height}, {"angle", box.angle}, {"corners", std::move(around)}};
}

}  // namespace

Json to_json(const std::vector<vision::Detection>& found, const std::vector<std::string>& labels, int width,
             int height) {
  Json list = Json::array();
  for (const vision::Detection& one : found) {
    Json entry = {{"class", one.class_id},
                  {"label", vision::label(labels, one.class_id)},
                  {"score", one.score},
                  {"box", one.box}};
    if (!one.mask.empty())
      entry["mask"] = {{"size", {height, width}},
                       {"counts", vision::run_lengths(one.mask, width, height)},
                       {"area", vision::area(one.mask)}};
    for (const vision::KeyPoint& point : one.points) entry["keypoints"].push_back({point.x, point.y, point.score});
    if (one.rotated) entry["obb"] = oriented(*one.rotated);
    list.push_back(std::move(entry));
  }
  return list;
}

std::string to_text(const vision::Detection& one, const std::vector<std::string>& labels) {
  std::string text =
      fmt::format("  {:<16} {:.3f}  {:.1f} {:.1f} {:.1f} {:.1f}", printable(vision::label(labels, one.class_id)),
                  one.score, one.box[0], one.box[1], one.box[2], one.box[3]);
  if (!one.mask.empty()) text += fmt::format("  mask of {}", counted(vision::area(one.mask), "pixel"));
  if (!one.points.empty()) {
    const auto seen = std::count_if(one.points.begin(), one.points.end(),
                                    [](const vision::KeyPoint& point) { return point.score >= seen_score; });
    text += fmt::format("  {} of {} key points", seen, one.points.size());
  }
  if (const auto& box = one.rotated)
    text += fmt::format("  oriented {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}°", box->cx, box->cy, box->width, box->height,
                        box->angle * 180 / std::numbers::pi_v<float>);
  return text + "\n";
}

std::string to_yolo(const vision::Detection& one, vision::Task task, int width, int height) {
  std::string text = std::to_string(one.class_id);
  const auto across = static_cast<double>(width), down = static_cast<double>(height);
  const auto add = [&](double x, double y) { text += fmt::format(" {:.6f} {:.6f}", x / across, y / down); };
  const float* const box = one.box;
  if (task == vision::Task::segment) {
    vision::Polygon edge = vision::largest_outline(one.mask);
    if (edge.empty()) edge = {{box[0], box[1]}, {box[2], box[1]}, {box[2], box[3]}, {box[0], box[3]}};
    for (const vision::Point& point : edge) add(point.x, point.y);
  } else if (one.rotated) {
    for (const vision::Point& corner : vision::corners(*one.rotated)) add(corner.x, corner.y);
  } else {
    add((box[0] + box[2]) / 2, (box[1] + box[3]) / 2);
    add(box[2] - box[0], box[3] - box[1]);
    for (const vision::KeyPoint& point : one.points) {
      add(point.x, point.y);
      text += fmt::format(" {:.4f}", point.score);
    }
  }
  return text + fmt::format(" {:.4f}\n", one.score);
}

void add_head(Json& report, const vision::Head& head) {
  report["head"] = vision::name(head.kind);
  report["task"] = vision::name(head.task);
  if (head.points > 0) report["key_points"] = head.points;
  report["head_from"] = head.from;
}

}  // namespace tenon::cli

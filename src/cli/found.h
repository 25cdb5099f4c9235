// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "vision/detection.h"
#include "vision/heads.h"

namespace tenon::cli {

/// Objects of an image of this size as reports have them: class, label, score, box, and as the model gives them
/// "mask" (COCO's run lengths: size, counts; and its area), "keypoints" ([x, y, score] each), "obb" (cx, cy, w, h,
/// angle in radians, corners).
nlohmann::ordered_json to_json(const std::vector<vision::Detection>& found, const std::vector<std::string>& labels,
                               int width, int height);

/// An object as a line of text for people.
std::string to_text(const vision::Detection& one, const std::vector<std::string>& labels);

/// An object as a line of a label file of the YOLO family, all in shares of the image's sides: class, then centre and
/// size, key points behind them; of masks the outline of the largest part; of oriented boxes the four corners; the
/// score last.
std::string to_yolo(const vision::Detection& one, vision::Task task, int width, int height);

/// What a report says of a head: kind, task, key points, and what told it.
void add_head(nlohmann::ordered_json& report, const vision::Head& head);

}  // namespace tenon::cli

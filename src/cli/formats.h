// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tenon::cli {

/// The detections of a report as COCO's results: image_id is the number that a file is named, else the image's place
/// from 1 on; category_id is COCO's own where the labels are its 80, else the class from 1 on; bbox is x y width
/// height.
nlohmann::ordered_json as_coco(const nlohmann::ordered_json& detections, const std::vector<std::string>& labels);

/// A line of names, and one for each object: image, frame, class, label, score, x1, y1, x2, y2. Commas and quotes in
/// names are quoted.
std::string as_csv(const nlohmann::ordered_json& detections);

}  // namespace tenon::cli

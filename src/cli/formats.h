// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "vision/heads.h"

namespace tenon::cli {

/// The detections of a report as COCO's results: image_id is the number that a file is named, else the image's place
/// from 1 on; category_id is COCO's own where the labels are its 80, the class where the first is the background, else
/// the class from 1 on; bbox is x y width height. Masks stand as run lengths under "segmentation", oriented boxes as
/// the polygon of their corners there, and key points as x, y, score one behind the other under "keypoints".
nlohmann::ordered_json as_coco(const nlohmann::ordered_json& detections, const std::vector<std::string>& labels);

/// A line of names, and one for each object: image, frame, class, label, score, x1, y1, x2, y2, and by
/// the task mask_height, mask_width, mask_counts, or cx, cy, w, h, angle, or x, y and score of each key point. Commas
/// and quotes in names are quoted.
std::string as_csv(const nlohmann::ordered_json& detections, vision::Task task = vision::Task::detect,
                   int64_t key_points = 0);

/// The segmentations of a report as COCO's results for classes of pixels: an entry for each class of an image.
nlohmann::ordered_json segments_as_coco(const nlohmann::ordered_json& segmentations,
                                        const std::vector<std::string>& labels);

/// A line of names, and one for each class of an image: image, frame, class, label, pixels, share.
std::string segments_as_csv(const nlohmann::ordered_json& segmentations);

}  // namespace tenon::cli

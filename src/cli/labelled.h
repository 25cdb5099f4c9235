// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::cli {

/// A class as labels name it: by number, by name, or both.
struct Category {
  std::string name;
  int64_t number = -1;  ///< as the model counts; -1: not told
  std::string seen_in;  ///< where it stands, for messages
};

struct LabelledBox {
  size_t category = 0;                 // in Labels::categories
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0;  // in pixels of the image
  bool crowd = false;
};
struct LabelledImage {
  std::string path;
  size_t category = 0;              // of an image of one class
  std::vector<LabelledBox> boxes;
};

/// Images with what they show.
struct Labels {
  bool boxes = false;  ///< else one class for each image
  std::string where;   ///< the file or folder
  std::vector<LabelledImage> images;
  std::vector<Category> categories;  ///< in the order that stands for the model's where nothing else tells
};

/// Whether a path holds labels: a .json or .csv file, or a folder without images whose folders have some.
bool holds_labels(const std::string& path);

/// Reads COCO's JSON, a JSON list of {"image", "objects": [{"class", "label", "box": [x0, y0, x1, y1]}]} ("detections"
/// is taken for "objects") or of {"image", "class"}, a JSON object or CSV file of image and class, or a tree with a
/// folder for each class. Images lie beside the file, in a folder named like it (without "instances_") beside it
/// or its own folder, or in one of `folders`. Throws Error(io) for what cannot be read and Error(usage) for images
/// that are missing or labels that are none.
Labels read_labels(const std::string& path, const std::vector<std::string>& folders);

/// The model's class for each category of the labels. `names` may be empty. Throws Error(usage) naming a category that
/// the model does not have.
std::vector<int> classes_of(const Labels& labels, const std::vector<std::string>& names, int64_t classes);

}  // namespace tenon::cli

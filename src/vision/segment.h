// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "vision/detection.h"
#include "vision/heads.h"
#include "vision/image.h"
#include "vision/preprocess.h"

namespace tenon::vision {

/// What a network's output says of each pixel.
enum class MapKind : uint8_t {
  logits,  ///< [N,C,H,W] or [N,H,W,C]: a score for each class, of any size
  binary,  ///< [N,1,H,W]: one score, of class 1 against class 0
  labels,  ///< [N,H,W] or [N,1,H,W]: the class itself
};
const char* name(MapKind kind);

struct MapHead {
  MapKind kind = MapKind::logits;
  size_t output = 0;
  int64_t classes = 0;  ///< 0 where only labels are given and the model tells no names
  bool channels_last = false;
  float threshold = 0;  ///< of `binary`
  int64_t height = 0, width = 0;
};

/// The class of each pixel of an image, row by row.
struct ClassMap {
  int width = 0, height = 0;
  std::vector<uint16_t> classes;
};

/// Recognises semantic segmentation by the shapes and types of a model's outputs; of several the one called "out",
/// "logits" or "output", else the first. Nothing where there is none.
std::optional<MapHead> recognise_map(std::span<const Tensor> outputs, int input_width, int input_height,
                                     const ModelHints& hints = {});

/// The classes of image `image` of the batch in the pixels of its source: scores are interpolated linearly, and the
/// largest counts; labels are taken from the nearest point. Throws Error(unsupported) where the outputs are not the
/// head's.
ClassMap segment(const MapHead& head, std::span<const Tensor> outputs, int64_t image, const Transform& transform);

/// Pixels of each class, by number, as far as there are any.
std::vector<int64_t> pixels_of_classes(const ClassMap& map);

/// A class and how much of an image it takes.
struct ClassShare {
  int class_id = 0;
  int64_t pixels = 0;
  double share = 0;  ///< of the image, 0 to 1
};
/// The classes of a map, largest first.
std::vector<ClassShare> shares_of(const ClassMap& map);

/// The pixels of one class.
Mask mask_of(const ClassMap& map, int class_id);

/// Colours the image by class, half transparent, with the edges between classes; class `bare` keeps its colours.
void draw_classes(Image& image, const ClassMap& map, int bare = -1);

/// The same with a legend of names and shares; a class called background keeps its colours and has no line.
void draw_segments(Image& image, const ClassMap& map, const std::vector<std::string>& labels);

}  // namespace tenon::vision

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "vision/image.h"
#include "vision/spec.h"

#include <memory>

namespace tenon::vision {

/// A rectangle of whole pixels.
struct Region {
  int x = 0, y = 0, width = 0, height = 0;
};

/// Computes rows of an image resampled to width x height, only within `region` of the result.
/// Rows are cheapest when asked for from the top. The image must outlive the object.
class Resampler {
 public:
  virtual ~Resampler() = default;
  /// Writes row `y` of the region as three planes (red, green, blue) of region.width bytes each.
  virtual void row(int y, uint8_t* planes) = 0;
};

std::unique_ptr<Resampler> resampler(const Image& image, int width, int height, Interpolation interpolation,
                                     const Region& region);

/// The whole image, resampled.
Image resize(const Image& image, int width, int height, Interpolation interpolation);

}  // namespace tenon::vision

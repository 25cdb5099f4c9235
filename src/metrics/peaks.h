// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tenon::metrics {

/// One plane of a heat map: `rows` x `columns` numbers, `step` apart.
struct Plane {
  const float* first;
  int64_t rows, columns, step = 1;

  float at(int64_t row, int64_t column) const { return first[(row * columns + column) * step]; }
};

/// Where a plane is highest: the centre of what is above half of the height near its greatest number, in places.
struct Peak {
  double x = 0, y = 0;
  double top = 0, height = 0;  ///< the greatest number, and what it rises above the mean

  static Peak of(const Plane& plane);
};

/// Whether what is in the upper quarter of the height is little, and in one spot.
bool stands_alone(const Plane& plane, const Peak& peak);

/// How near a point is to where it was: 1 where it stays, 0.6 where it moves by a fiftieth of the longer side, nothing
/// at a tenth. As COCO's similarity of key points, with one deviation for all.
double nearness(const Peak& one, const Peak& other, const Plane& plane);

}  // namespace tenon::metrics

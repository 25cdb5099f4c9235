// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "vision/mask.h"

namespace tenon::vision {
namespace {

constexpr int steps_x[] = {1, 0, -1, 0}, steps_y[] = {0, 1, 0, -1};  // east, south, west, north

/// Walks the borders of a mask with its pixels at the right hand; they join where sides meet, not corners.
class Walker {
 public:
  explicit Walker(const Mask& mask)
      : mask_(mask), seen_(static_cast<size_t>(mask.width) * static_cast<size_t>(mask.height)) {}

  /// Whether a border that is not yet walked begins eastward above the pixel.
  bool begins(int column, int row) const {
    return is_set(column, row) && !is_set(column, row - 1) && !seen_[index(column, row)];
  }

  Polygon walk(int column, int row) {
    Polygon polygon;
    int x = column, y = row, heading = 0;
    do {
      if (heading == 0) seen_[index(x, y)] = 1;
      x += steps_x[heading], y += steps_y[heading];
      const int next = turned(x, y, heading);
      if (next != heading) polygon.push_back({static_cast<float>(mask_.x0 + x), static_cast<float>(mask_.y0 + y)});
      heading = next;
    } while (x != column || y != row || heading != 0);
    return polygon;
  }

 private:
  size_t index(int column, int row) const {
    return static_cast<size_t>(row) * static_cast<size_t>(mask_.width) + static_cast<size_t>(column);
  }
  bool is_set(int column, int row) const {
    return column >= 0 && row >= 0 && column < mask_.width && row < mask_.height && mask_.bits[index(column, row)];
  }
  int turned(int x, int y, int heading) const {
    // The pixels ahead at the right and at the left, of the four that meet in the corner (x, y).
    const int right_x[] = {x, x - 1, x - 1, x}, right_y[] = {y, y, y - 1, y - 1};
    const int left_x[] = {x, x, x - 1, x - 1}, left_y[] = {y - 1, y, y, y - 1};
    if (!is_set(right_x[heading], right_y[heading])) return (heading + 1) % 4;
    return is_set(left_x[heading], left_y[heading]) ? (heading + 3) % 4 : heading;
  }

  const Mask& mask_;
  std::vector<uint8_t> seen_;  // by pixel: whether the border above it is walked
};

double distance(const Point& point, const Point& a, const Point& b) {
  const double x = b.x - a.x, y = b.y - a.y, length = std::hypot(x, y);
  if (length == 0) return std::hypot(point.x - a.x, point.y - a.y);
  return std::abs((point.x - a.x) * y - (point.y - a.y) * x) / length;
}

/// Of a closed polygon those points without which it would move by more than `tolerance` (Douglas and Peucker).
Polygon simplified(const Polygon& polygon, float tolerance) {
  const size_t count = polygon.size();
  if (count < 5 || tolerance <= 0) return polygon;
  const auto point = [&](size_t at) -> const Point& { return polygon[at % count]; };
  size_t far = 0;
  for (size_t at = 1; at < count; ++at)
    if (std::hypot(point(at).x - point(0).x, point(at).y - point(0).y) >
        std::hypot(point(far).x - point(0).x, point(far).y - point(0).y))
      far = at;
  std::vector<uint8_t> kept(count);
  kept[0] = kept[far] = 1;
  std::vector<std::pair<size_t, size_t>> parts = {{0, far}, {far, count}};
  while (!parts.empty()) {
    const auto [begin, end] = parts.back();
    parts.pop_back();
    double most = tolerance;
    size_t middle = 0;
    for (size_t at = begin + 1; at < end; ++at)
      if (const double off = distance(point(at), point(begin), point(end)); off > most) most = off, middle = at;
    if (middle == 0) continue;
    kept[middle] = 1;
    parts.push_back({begin, middle}), parts.push_back({middle, end});
  }
  Polygon fewer;
  for (size_t at = 0; at < count; ++at)
    if (kept[at]) fewer.push_back(polygon[at]);
  return fewer.size() < 3 ? polygon : fewer;
}

/// Twice the area, negative of holes.
double doubled_area(const Polygon& polygon) {
  double sum = 0;
  for (size_t at = 0; at < polygon.size(); ++at) {
    const Point &a = polygon[at], &b = polygon[(at + 1) % polygon.size()];
    sum += static_cast<double>(a.x) * b.y - static_cast<double>(b.x) * a.y;
  }
  return sum;
}

}  // namespace

std::vector<Polygon> outlines(const Mask& mask, float tolerance) {
  std::vector<Polygon> found;
  Walker walker(mask);
  for (int row = 0; row < mask.height; ++row)
    for (int column = 0; column < mask.width; ++column)
      if (walker.begins(column, row)) found.push_back(simplified(walker.walk(column, row), tolerance));
  return found;
}

Polygon largest_outline(const Mask& mask, float tolerance) {
  std::vector<Polygon> all = outlines(mask, tolerance);
  const auto largest = std::max_element(
      all.begin(), all.end(), [](const Polygon& a, const Polygon& b) { return doubled_area(a) < doubled_area(b); });
  return largest == all.end() ? Polygon() : std::move(*largest);
}

}  // namespace tenon::vision

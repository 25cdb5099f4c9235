// SPDX-License-Identifier: Apache-2.0
#include "vision/rotated.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tenon::vision {
namespace {

/// The covariance of a box as a uniform distribution: [[a, c], [c, b]].
struct Spread {
  double a, b, c;
};

Spread spread(const Rotated& box) {
  const double along = static_cast<double>(box.width) * box.width / 12,
               across = static_cast<double>(box.height) * box.height / 12;
  const double cosine = std::cos(box.angle), sine = std::sin(box.angle);
  return {along * cosine * cosine + across * sine * sine, along * sine * sine + across * cosine * cosine,
          (along - across) * cosine * sine};
}

}  // namespace

std::array<Point, 4> corners(const Rotated& box) {
  const float cosine = std::cos(box.angle), sine = std::sin(box.angle);
  const float ax = box.width / 2 * cosine, ay = box.width / 2 * sine;
  const float bx = -box.height / 2 * sine, by = box.height / 2 * cosine;
  return {Point{box.cx + ax + bx, box.cy + ay + by}, Point{box.cx + ax - bx, box.cy + ay - by},
          Point{box.cx - ax - bx, box.cy - ay - by}, Point{box.cx - ax + bx, box.cy - ay + by}};
}

float probabilistic_iou(const Rotated& a, const Rotated& b) {
  constexpr double least = 1e-7, most = 100;  // of the distance, so that its root and exponential stay in range
  const Spread one = spread(a), two = spread(b);
  const double dx = static_cast<double>(a.cx) - b.cx, dy = static_cast<double>(a.cy) - b.cy;
  const double sa = one.a + two.a, sb = one.b + two.b, sc = one.c + two.c, determinant = sa * sb - sc * sc;
  const double own = std::max(one.a * one.b - one.c * one.c, 0.0) * std::max(two.a * two.b - two.c * two.c, 0.0);
  const double apart = (sa * dy * dy + sb * dx * dx - 2 * sc * dx * dy) / (4 * (determinant + least));
  const double unlike = std::log(determinant / (4 * std::sqrt(own) + least) + least) / 2;
  const double bhattacharyya = std::clamp(apart + unlike, least, most);
  return static_cast<float>(1 - std::sqrt(1 - std::exp(-bhattacharyya) + least));
}

Rotated to_source(const Rotated& box, const Transform& transform) {
  const double cosine = std::cos(box.angle), sine = std::sin(box.angle);
  const double ax = cosine / transform.scale_x, ay = sine / transform.scale_y;
  const double bx = -sine / transform.scale_x, by = cosine / transform.scale_y;
  double width = box.width * std::hypot(ax, ay), height = box.height * std::hypot(bx, by), angle = std::atan2(ay, ax);
  // Of a square the side that it came with.
  if (width < height * (1 - 1e-6)) {
    std::swap(width, height);
    angle = std::atan2(by, bx);
  }
  angle = std::fmod(angle + 2 * std::numbers::pi, std::numbers::pi);
  // The smallest negative angles round to a half turn, which is none.
  if (static_cast<float>(angle) >= std::numbers::pi_v<float>) angle = 0;
  return {static_cast<float>(transform.source_x(box.cx)), static_cast<float>(transform.source_y(box.cy)),
          static_cast<float>(width), static_cast<float>(height), static_cast<float>(angle)};
}

}  // namespace tenon::vision

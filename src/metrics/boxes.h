// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace tenon::metrics {

/// Corners, in a unit that found and true boxes share.
struct Box {
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  double area() const { return (x1 - x0) * (y1 - y0); }
};
struct Found {
  int class_id = 0;
  double score = 0;
  Box box;
};
struct Truth {
  int class_id = 0;
  Box box;
  bool crowd = false;  ///< many objects in one box: finding it is neither right nor wrong
};

/// Intersection over union; over the area of `a` alone where `b` is a crowd.
double overlap(const Box& a, const Box& b, bool crowd = false);

/// Mean average precision over classes and the overlaps 0.50, 0.55, ..., 0.95, by the rules of COCO's evaluation:
/// precision at 101 recalls, at most 100 boxes of a class and image, classes without true boxes left out.
class AveragePrecision {
 public:
  /// The next image.
  void add(const std::vector<Found>& found, const std::vector<Truth>& truth);
  int64_t images() const { return images_; }
  /// 0..1, with image p counted weights[p] times; each once where there are no weights.
  double value(std::span<const uint32_t> weights = {});

 private:
  static constexpr int overlaps = 10;
  struct Hit {
    double score = 0;
    uint32_t image = 0;
    uint16_t right = 0, ignored = 0;  // a bit for each overlap
  };
  struct Class {
    std::vector<Hit> hits;
    std::vector<std::pair<uint32_t, uint32_t>> truths;  // image, count
  };
  static double value(const Class& one, std::span<const uint32_t> weights, int overlap, double truths);

  std::map<int, Class> classes_;
  int64_t images_ = 0;
  bool sorted_ = true;
};

}  // namespace tenon::metrics

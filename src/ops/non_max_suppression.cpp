// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "ops/boxes.h"
#include "ops/floats.h"
#include "ops/window.h"

namespace tenon::ops::non_max_suppression {
namespace {

void check_shapes(Inference& ctx) {
  const ir::Shape *boxes = ctx.shape(0), *scores = ctx.shape(1);
  if (boxes && (boxes->size() != 3 || differ((*boxes)[2], 4)))
    ctx.fail("the boxes are " + ir::str(*boxes) + " where N x M x 4 is needed");
  if (scores && scores->size() != 3)
    ctx.fail("the scores are " + ir::str(*scores) + " where N x classes x M is needed");
  if (boxes && scores && (differ((*boxes)[0], (*scores)[0]) || differ((*boxes)[1], (*scores)[2])))
    ctx.fail("boxes " + ir::str(*boxes) + " and scores " + ir::str(*scores) + " do not fit");
}

void infer(Inference& ctx) {
  check_shapes(ctx);
  ctx.set(0, DType::i64, ir::Shape{ctx.unknown(), 3});
}

/// Internal: NonMaxSuppression with as many rows as there may be at most, those behind the last being zeros, and how
/// many there are.
void infer_bounded(Inference& ctx) {
  check_shapes(ctx);
  const ir::Shape* scores = ctx.shape(1);
  const auto most = ctx.content(2);
  ir::Dim rows = ctx.unknown();
  if (scores && most && most->size() == 1 && (*most)[0].is_constant() && (*scores)[2].is_constant())
    rows = (*scores)[0] * (*scores)[1] * ir::Dim(std::clamp<int64_t>((*most)[0].value(), 0, (*scores)[2].value()));
  ctx.set(0, DType::i64, ir::Shape{rows, 3});
  ctx.set(1, DType::i64, ir::Shape{1});
}

/// Corners in order, whatever the order in the file.
struct Box {
  float top, left, bottom, right;
  float area() const { return (bottom - top) * (right - left); }
};

Box read_box(const float* from, bool centred) {
  const auto [top, left, bottom, right] = corners_of(from, centred);
  return {top, left, bottom, right};
}

/// Intersection over union; 0 where either box is empty.
float overlap(const Box& a, const Box& b) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top),
              width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0 || a.area() <= 0 || b.area() <= 0) return 0;
  const float both = height * width;
  return both / (a.area() + b.area() - both);
}

/// Boxes by where they begin along the axis on which they lie furthest apart, so that one is compared with those near
/// it alone: detectors give each class a place of its own, far from the others.
class Kept {
 public:
  explicit Kept(std::span<const Box> candidates) {
    float low[2] = {HUGE_VALF, HUGE_VALF}, high[2] = {-HUGE_VALF, -HUGE_VALF};
    bool finite = true;
    for (const Box& box : candidates) {
      finite = finite && std::isfinite(box.top) && std::isfinite(box.left) && std::isfinite(box.bottom) &&
               std::isfinite(box.right);
      low[0] = std::min(low[0], box.top), high[0] = std::max(high[0], box.bottom);
      low[1] = std::min(low[1], box.left), high[1] = std::max(high[1], box.right);
    }
    across_ = high[1] - low[1] > high[0] - low[0];
    low_ = low[across_];
    const float range = high[across_] - low_, count = std::min(most_bins, static_cast<float>(candidates.size()));
    const float scale = count / range;
    const bool apart = finite && std::isfinite(range) && range > 0 && std::isfinite(scale);
    scale_ = apart ? scale : 0;
    bins_.resize(apart ? static_cast<size_t>(count) : 1);
  }

  /// Whether one of them covers more of it.
  bool covers(const Box& box, float limit) const {
    if (limit < 0) return count_ > 0;
    const size_t first = first_of(box), from = first > longest_ ? first - longest_ : 0, to = last_of(box);
    for (size_t bin = from; bin <= to; ++bin)
      for (const Box& other : bins_[bin])
        if (overlap(box, other) > limit) return true;
    return false;
  }

  void add(const Box& box) {
    const size_t first = first_of(box);
    longest_ = std::max(longest_, last_of(box) - first);
    bins_[first].push_back(box);
    ++count_;
  }
  int64_t count() const { return count_; }

 private:
  static constexpr float most_bins = 1024;

  size_t bin_of(float at) const {
    const float bin = (at - low_) * scale_;
    return bin > 0 ? std::min(static_cast<size_t>(std::min(bin, most_bins)), bins_.size() - 1) : 0;
  }
  size_t first_of(const Box& box) const { return bin_of(across_ ? box.left : box.top); }
  size_t last_of(const Box& box) const { return std::max(first_of(box), bin_of(across_ ? box.right : box.bottom)); }

  bool across_ = false;
  float low_ = 0, scale_ = 0;
  size_t longest_ = 0;  // bins behind its first that a box reaches
  int64_t count_ = 0;
  std::vector<std::vector<Box>> bins_;
};

/// Greedy NMS per batch entry and class, in falling score; rows are (batch, class, box). `room` is how many
/// there may be.
std::vector<int64_t> nms(Evaluation& ctx, int64_t& room) {
  const Tensor boxes = as_f32(ctx.input(0)), scores = as_f32(ctx.input(1));
  const Dims &b = boxes.dims(), &s = scores.dims();
  if (boxes.dtype() != DType::f32 || scores.dtype() != DType::f32) ctx.fail("boxes and scores must be f32");
  if (b.rank() != 3 || b[2] != 4 || s.rank() != 3 || s[0] != b[0] || s[2] != b[1])
    ctx.fail("boxes " + b.str() + " and scores " + s.str() + " do not fit");
  const auto number = [&](size_t input, float otherwise) {
    if (!ctx.has(input)) return otherwise;
    const std::vector<double> list = reals(ctx, ctx.input(input));
    if (list.size() != 1) ctx.fail("a threshold is not one number");
    return static_cast<float>(list[0]);
  };
  int64_t most = 0;
  if (ctx.has(2)) {
    const std::vector<int64_t> list = ctx.integers(2);
    if (list.size() != 1) ctx.fail("max_output_boxes_per_class is not one number");
    most = list[0];
  }
  room = s[0] * s[1] * std::clamp<int64_t>(most, 0, s[2]);
  const float overlap_limit = number(3, 0);
  const bool thresholded = ctx.has(4), centred = ctx.node().integer("center_point_box", 0) != 0;
  const float score_limit = number(4, 0);
  std::vector<int64_t> rows;
  std::vector<Box> candidates;
  for (int64_t n = 0; n < s[0]; ++n)
    for (int64_t c = 0; c < s[1]; ++c) {
      const float* list = scores.data<float>() + (n * s[1] + c) * s[2];
      std::vector<int64_t> order;
      for (int64_t i = 0; i < s[2]; ++i)
        if (thresholded ? list[i] > score_limit : list[i] == list[i]) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t z) { return list[a] > list[z]; });
      candidates.clear();
      for (const int64_t i : order) candidates.push_back(read_box(boxes.data<float>() + (n * b[1] + i) * 4, centred));
      Kept kept(candidates);
      for (size_t at = 0; at < order.size() && kept.count() < most; ++at) {
        if (kept.covers(candidates[at], overlap_limit)) continue;
        kept.add(candidates[at]);
        rows.insert(rows.end(), {n, c, order[at]});
      }
    }
  return rows;
}

void deliver_rows(Evaluation& ctx, const std::vector<int64_t>& rows, int64_t room) {
  Tensor& output = ctx.output(0, DType::i64, Dims{room, 3});
  std::fill_n(output.data<int64_t>(), output.elements(), 0);
  std::copy(rows.begin(), rows.end(), output.data<int64_t>());
}

void evaluate(Evaluation& ctx) {
  int64_t room = 0;
  const std::vector<int64_t> rows = nms(ctx, room);
  deliver_rows(ctx, rows, static_cast<int64_t>(rows.size()) / 3);
}

void evaluate_bounded(Evaluation& ctx) {
  int64_t room = 0;
  const std::vector<int64_t> rows = nms(ctx, room);
  deliver_rows(ctx, rows, room);
  *ctx.output(1, DType::i64, Dims{1}).data<int64_t>() = static_cast<int64_t>(rows.size()) / 3;
}

TENON_OP("NonMaxSuppression", 2, 5, 1, 1, infer, evaluate, {attr::flag("center_point_box")});
TENON_OP("tenon:BoundedNms", 3, 5, 2, 2, infer_bounded, evaluate_bounded, {attr::flag("center_point_box").internal()});

}  // namespace
}  // namespace tenon::ops::non_max_suppression

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/nms.h"
#include "backends/cpu/sorted_keys.h"
#include "backends/kernel.h"
#include "ops/boxes.h"

namespace tenon::cpu::non_max_suppression {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

constexpr int64_t most_bins = 1024, boxes_a_bin = 32;
constexpr int64_t most_rows = int64_t{1} << 24;  // of all classes, for each of which there is memory

Box read_box(const float* from, bool centred) {
  const auto [top, left, bottom, right] = ops::corners_of(from, centred);
  return {top, left, bottom, right, (bottom - top) * (right - left)};
}

/// The axis on which boxes lie furthest apart, cut into bins, so that a box is compared with those near it alone:
/// detectors give each class a place of its own, far from the others.
class Axis {
 public:
  explicit Axis(std::span<const Box> boxes) {
    float low[2] = {HUGE_VALF, HUGE_VALF}, high[2] = {-HUGE_VALF, -HUGE_VALF};
    bool finite = true;
    for (const Box& box : boxes) {
      finite = finite && std::isfinite(box.top + box.left + box.bottom + box.right);
      low[0] = std::min(low[0], box.top), high[0] = std::max(high[0], box.bottom);
      low[1] = std::min(low[1], box.left), high[1] = std::max(high[1], box.right);
    }
    across_ = high[1] - low[1] > high[0] - low[0];
    low_ = low[across_];
    bins_ = std::clamp<int64_t>(static_cast<int64_t>(boxes.size()) / boxes_a_bin, 1, most_bins);
    const float range = high[across_] - low_;
    scale_ = static_cast<float>(bins_) / range;
    if (!finite || !(range > 0) || !std::isfinite(range) || !std::isfinite(scale_)) bins_ = 1;
  }
  int64_t bins() const { return bins_; }
  float start(const Box& box) const { return across_ ? box.left : box.top; }
  float end(const Box& box) const { return across_ ? box.right : box.bottom; }
  int64_t first(const Box& box) const { return bin_of(start(box)); }
  int64_t last(const Box& box) const { return std::max(first(box), bin_of(end(box))); }

 private:
  int64_t bin_of(float at) const {
    if (bins_ == 1) return 0;
    return static_cast<int64_t>(std::clamp((at - low_) * scale_, 0.f, static_cast<float>(bins_ - 1)));
  }

  bool across_;
  float low_, scale_;
  int64_t bins_;
};

/// Memory in which one worker sorts the boxes of a class and keeps some.
struct Room {
  std::span<uint64_t> keys, spare;
  std::span<Box> boxes;
  KeptBoxes kept;

  static int64_t kept_floats(int64_t boxes) { return boxes + most_bins * nms_lanes; }
  static size_t bytes(int64_t boxes) {
    const size_t all = static_cast<size_t>(boxes) * (2 * sizeof(uint64_t) + sizeof(Box)) +
                       static_cast<size_t>(kept_floats(boxes)) * 5 * sizeof(float) + most_bins * sizeof(KeptBoxes::Bin);
    return (all + 63) / 64 * 64;
  }
  Room(std::byte* at, int64_t count) {
    const auto take = [&]<class T>(int64_t elements, T*& to) {
      to = reinterpret_cast<T*>(at);
      at += elements * static_cast<int64_t>(sizeof(T));
      return std::span<T>(to, static_cast<size_t>(elements));
    };
    uint64_t* key;
    Box* box;
    take(most_bins, kept.bins);
    keys = take(count, key), spare = take(count, key), boxes = take(count, box);
    for (float** field : {&kept.top, &kept.left, &kept.bottom, &kept.right, &kept.area})
      take(kept_floats(count), *field);
  }
};

/// Empty bins, each with room for all boxes that begin in it.
void lay_out(KeptBoxes& kept, const Axis& axis, std::span<const Box> boxes) {
  const std::span bins(kept.bins, static_cast<size_t>(axis.bins()));
  std::fill(bins.begin(), bins.end(), KeptBoxes::Bin{0, 0, -HUGE_VALF});
  for (const Box& box : boxes) ++bins[static_cast<size_t>(axis.first(box))].end;
  int64_t at = 0;
  for (KeptBoxes::Bin& bin : bins) {
    const int64_t room = (bin.end + nms_lanes - 1) / nms_lanes * nms_lanes;
    bin.begin = bin.end = at;
    at += room;
  }
  std::fill_n(kept.area, at, 0.f);
}

void keep(KeptBoxes& kept, int64_t bin, const Box& box, float reach) {
  const int64_t at = kept.bins[bin].end++;
  kept.top[at] = box.top, kept.left[at] = box.left, kept.bottom[at] = box.bottom, kept.right[at] = box.right;
  kept.area[at] = box.area;
  kept.bins[bin].reach = std::max(kept.bins[bin].reach, reach);
}

/// What the optional inputs say.
struct Limits {
  int64_t most = 0;  // boxes of a class
  float overlap = 0, score = 0;
  bool scored = false;  // whether boxes of little score are left out, not those alone that have none
};

/// Boxes of a class by falling score, each kept that none kept before it covers.
class BinsStep : public backends::FindingStep {
 public:
  explicit BinsStep(const Problem& problem)
      : ops_(nms_ops(active_isa())),
        centred_(problem.node->integer("center_point_box", 0) != 0),
        classes_(problem.inputs[1].dims[1]),
        pairs_(problem.inputs[1].dims[0] * classes_),
        boxes_(problem.inputs[1].dims[2]),
        threads_(problem.threads) {
    for (size_t at = 0; at < problem.inputs.size(); ++at) given_[at] = static_cast<bool>(problem.inputs[at]);
    rooms_at_ =
        (static_cast<size_t>(pairs_) * (sizeof(int64_t) + static_cast<size_t>(boxes_) * sizeof(uint32_t)) + 63) / 64 *
        64;
  }
  size_t workspace_bytes() const override { return rooms_at_ + static_cast<size_t>(threads_) * Room::bytes(boxes_); }

  void find(std::byte* const* inputs, const Worker& worker) const override {
    const Limits limits = limits_of(inputs);
    Room room(worker.workspace + rooms_at_ + static_cast<size_t>(worker.id) * Room::bytes(boxes_), boxes_);
    int64_t begin, end;
    worker.share(pairs_, begin, end);
    for (int64_t pair = begin; pair < end; ++pair)
      counts(worker.workspace)[pair] = select(reinterpret_cast<const float*>(inputs[0]) + pair / classes_ * boxes_ * 4,
                                              reinterpret_cast<const float*>(inputs[1]) + pair * boxes_, limits, room,
                                              places(worker.workspace, pair));
  }

  Dims found(const std::byte* workspace) const override {
    const int64_t* list = counts(workspace);
    return {std::accumulate(list, list + pairs_, int64_t{0}), 3};
  }

  void run(std::byte* const*, std::byte* const* outputs, const Worker& worker) const override {
    const int64_t* list = counts(worker.workspace);
    int64_t begin, end;
    worker.share(pairs_, begin, end);
    auto* to = reinterpret_cast<int64_t*>(outputs[0]) + std::accumulate(list, list + begin, int64_t{0}) * 3;
    for (int64_t pair = begin; pair < end; ++pair)
      for (int64_t at = 0; at < list[pair]; ++at, to += 3) {
        to[0] = pair / classes_, to[1] = pair % classes_;
        to[2] = places(worker.workspace, pair)[at];
      }
  }

 private:
  static int64_t* counts(std::byte* workspace) { return reinterpret_cast<int64_t*>(workspace); }
  static const int64_t* counts(const std::byte* workspace) { return reinterpret_cast<const int64_t*>(workspace); }
  /// Of the boxes that were kept.
  uint32_t* places(std::byte* workspace, int64_t pair) const {
    return reinterpret_cast<uint32_t*>(counts(workspace) + pairs_) + pair * boxes_;
  }

  Limits limits_of(std::byte* const* inputs) const {
    Limits limits;
    if (given_[2]) limits.most = std::clamp<int64_t>(*reinterpret_cast<const int64_t*>(inputs[2]), 0, boxes_);
    if (given_[3]) limits.overlap = *reinterpret_cast<const float*>(inputs[3]);
    if (given_[4]) limits.score = *reinterpret_cast<const float*>(inputs[4]);
    limits.scored = given_[4];
    // All boxes cover others by more.
    if (limits.overlap < 0) limits.most = std::min<int64_t>(limits.most, 1);
    return limits;
  }

  int64_t select(const float* boxes, const float* scores, const Limits& limits, Room& room, uint32_t* places) const {
    size_t candidates = 0;
    for (int64_t at = 0; at < boxes_; ++at) {
      const float score = scores[at];
      room.keys[candidates] = sort_key(~rising(score), static_cast<uint32_t>(at));
      candidates += limits.scored ? score > limits.score : score == score;
    }
    const std::span<const uint64_t> order = sorted(room.keys.first(candidates), room.spare.first(candidates));
    for (size_t at = 0; at < candidates; ++at)
      room.boxes[at] = read_box(boxes + int64_t{place_of(order[at])} * 4, centred_);
    const Axis axis(room.boxes.first(candidates));
    lay_out(room.kept, axis, room.boxes.first(candidates));
    int64_t count = 0, longest = 0;  // bins behind its first that a kept box reaches
    for (size_t at = 0; at < candidates && count < limits.most; ++at) {
      const Box& box = room.boxes[at];
      const int64_t first = axis.first(box), last = axis.last(box);
      if (ops_.covered(room.kept, std::max<int64_t>(first - longest, 0), first, last, box, axis.start(box),
                       limits.overlap))
        continue;
      keep(room.kept, first, box, axis.end(box));
      longest = std::max(longest, last - first);
      places[count++] = place_of(order[at]);
    }
    return count;
  }

  const NmsOps& ops_;
  bool centred_;
  int64_t classes_, pairs_, boxes_;
  int threads_;
  bool given_[5] = {};
  size_t rooms_at_;
};

Reason refuses(const Problem& problem) {
  const Operand &boxes = problem.inputs[0], &scores = problem.inputs[1];
  if (boxes.dtype != DType::f32 || scores.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (scores.dims.elements() == 0) return Reason::empty;
  if (scores.dims[0] != boxes.dims[0] || scores.dims[2] != boxes.dims[1])
    return {Reason::shape, "scores", "those of all boxes"};
  if (scores.dims.elements() > most_rows) return Reason::too_large;
  for (const auto* list : {&problem.inputs, &problem.outputs})
    for (const Operand& operand : *list)
      if (!operand.dense()) return {Reason::not_contiguous, "operands"};
  for (size_t at = 2; at < problem.inputs.size(); ++at) {
    const Operand& operand = problem.inputs[at];
    if (!operand) continue;
    if (operand.dtype != (at == 2 ? DType::i64 : DType::f32)) return {Reason::element_type, "limits", "i64 and f32"};
    if (operand.dims.elements() != 1) return {Reason::shape, "limits", "one element"};
  }
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<BinsStep>(problem); }

const backends::KernelRegistrar registered(
    {.op = "NonMaxSuppression", .name = "bins", .priority = 1, .refuses = refuses, .make = make, .finds = true});

}  // namespace
}  // namespace tenon::cpu::non_max_suppression

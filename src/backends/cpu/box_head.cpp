// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/kernel.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/kernels/f32/rows.h"

namespace tenon::cpu::box_head {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

constexpr int64_t most_places = 256, most_logits = 4096;  // turned around together, so that they stay in L1

/// Logits of a scale: [batch][place][row], of which a row is contiguous.
struct Scale {
  int64_t places, first;                                         // how many, and where they stand among all
  int64_t boxes_batch, boxes_place, scores_batch, scores_place;  // strides
};

/// Columns of some neighbouring places: their logits turned around, so that all arithmetic is along places.
class BoxHeadStep : public backends::Step {
 public:
  explicit BoxHeadStep(const Problem& problem)
      : scales_(static_cast<size_t>(problem.node->integer("scales", 0))),
        batch_(problem.outputs[0].dims[0]),
        classes_(problem.outputs[0].dims[1] - 4),
        bins_(problem.inputs[2 * scales_].dims.elements()),
        together_(std::clamp<int64_t>(most_logits / bins_, 1, most_places)),
        out_batch_(problem.outputs[0].strides[0]),
        out_line_(problem.outputs[0].strides[1]),
        ops_(row_ops(isa_for(problem))),
        loops_(loops(isa_for(problem))) {
    int64_t first = 0;
    for (size_t at = 0; at < scales_; ++at) {
      const Operand &boxes = problem.inputs[at], &scores = problem.inputs[scales_ + at];
      list_.push_back({boxes.dims[1], first, boxes.strides[0], boxes.strides[1], scores.strides[0], scores.strides[1]});
      first += boxes.dims[1];
      units_ += pieces(list_.back());
    }
    for (int64_t bin = 0; bin < bins_; ++bin) offsets_.push_back(bin * together_);
    ones_.assign(static_cast<size_t>(bins_), 1.f);
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    int64_t begin, end;
    worker.share(batch_ * units_, begin, end);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t n = unit / units_;
      int64_t piece = unit % units_;
      size_t at = 0;
      while (piece >= pieces(list_[at])) piece -= pieces(list_[at++]);
      const Scale& scale = list_[at];
      const int64_t place = piece * together_, count = std::min(together_, scale.places - place);
      const auto from = [&](size_t input) { return reinterpret_cast<const float*>(inputs[input]); };
      const int64_t column = scale.first + place;
      float* const out = reinterpret_cast<float*>(outputs[0]) + n * out_batch_ + column;
      boxes(from(at) + n * scale.boxes_batch + place * scale.boxes_place, scale.boxes_place, count,
            {from(2 * scales_), from(2 * scales_ + 1) + column * 2, from(2 * scales_ + 2) + column * 2,
             from(2 * scales_ + 3) + column},
            out);
      scores(from(scales_ + at) + n * scale.scores_batch + place * scale.scores_place, scale.scores_place, count,
             out + 4 * out_line_);
    }
  }

 private:
  struct Places {
    const float *bins, *low, *high, *scale;
  };
  int64_t pieces(const Scale& scale) const { return (scale.places + together_ - 1) / together_; }

  void turn(float* to, int64_t to_pitch, const float* from, int64_t from_pitch, int64_t rows, int64_t columns) const {
    loops_.turn(reinterpret_cast<uint32_t*>(to), to_pitch, reinterpret_cast<const uint32_t*>(from), from_pitch, rows,
                columns);
  }

  void boxes(const float* logits, int64_t pitch, int64_t count, const Places& places, float* out) const {
    float ends[2][2 * most_places], side[4][most_places];
    turn(ends[0], most_places, places.low, 2, count, 2);
    turn(ends[1], most_places, places.high, 2, count, 2);
    for (int64_t at = 0; at < 4; ++at) distance(logits + at * bins_, pitch, count, places.bins, side[at]);
    for (int64_t axis = 0; axis < 2; ++axis) {
      float *const from = side[axis], *const to = side[axis + 2];
      ops_.binary(expr::Id::Sub, from, ends[0] + axis * most_places, 1, from, 1, count);
      ops_.binary(expr::Id::Add, to, ends[1] + axis * most_places, 1, to, 1, count);
      float *const centre = out + axis * out_line_, *const size = out + (axis + 2) * out_line_;
      ops_.blend(centre, from, 0.5f, to, 0.5f, count);
      ops_.binary(expr::Id::Sub, size, to, 1, from, 1, count);
      ops_.binary(expr::Id::Mul, centre, centre, 1, places.scale, 1, count);
      ops_.binary(expr::Id::Mul, size, size, 1, places.scale, 1, count);
    }
  }

  /// Means of the bins by softmax of `count` rows of logits.
  void distance(const float* logits, int64_t pitch, int64_t count, const float* bins, float* mean) const {
    float turned[most_logits], top[most_places], sum[most_places];
    turn(turned, together_, logits, pitch, count, bins_);
    std::copy(turned, turned + count, top);
    for (int64_t bin = 1; bin < bins_; ++bin)
      loops_.fold_into(Fold::max, Before::none, top, turned + offsets_[static_cast<size_t>(bin)], count);
    for (const int64_t offset : offsets_) {
      ops_.binary(expr::Id::Sub, turned + offset, turned + offset, 1, top, 1, count);
      ops_.unary(expr::Id::Exp, 0, 0, turned + offset, turned + offset, count);
    }
    loops_.weighted(sum, turned, offsets_.data(), ones_.data(), bins_, count);
    loops_.weighted(mean, turned, offsets_.data(), bins, bins_, count);
    ops_.binary(expr::Id::Div, mean, mean, 1, sum, 1, count);
  }

  void scores(const float* logits, int64_t pitch, int64_t count, float* out) const {
    turn(out, out_line_, logits, pitch, count, classes_);
    for (int64_t line = 0; line < classes_; ++line)
      ops_.unary(expr::Id::Sigmoid, 0, 0, out + line * out_line_, out + line * out_line_, count);
  }

  const size_t scales_;
  const int64_t batch_, classes_, bins_, together_, out_batch_, out_line_;
  int64_t units_ = 0;
  std::vector<Scale> list_;
  std::vector<int64_t> offsets_;
  std::vector<float> ones_;
  const RowOps& ops_;
  const Loops& loops_;
};

Reason refuses(const Problem& problem) {
  const auto scales = static_cast<size_t>(problem.node->integer("scales", 0));
  for (const Operand& operand : problem.inputs) {
    if (operand.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
    if (!operand.rows_contiguous()) return {Reason::gaps, "rows"};
  }
  for (size_t at = 2 * scales; at < problem.inputs.size(); ++at)
    if (!problem.inputs[at].dense()) return {Reason::gaps, "places"};
  if (problem.outputs[0].dims.elements() == 0) return Reason::empty;
  if (!problem.outputs[0].rows_contiguous()) return {Reason::gaps, "the result's rows"};
  return problem.inputs[2 * scales].dims.elements() > most_logits ? Reason(Reason::too_many, most_logits, "bins")
                                                                  : Reason();
}

std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<BoxHeadStep>(problem); }

const backends::KernelRegistrar registered({"tenon:BoxHead", "turned", 1, refuses, make});

}  // namespace
}  // namespace tenon::cpu::box_head

// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/floats.h"
#include "ops/inference.h"
#include "ops/window.h"

namespace tenon::ops::box_head {
namespace {

/// Internal: what follows the last convolutions of a detector without anchors (YOLOv8 and its kin). Attribute `scales`
/// S. Inputs: S logits of distances [N, A_i, 4 R], S logits of classes [N, A_i, K], the R distances that they weigh,
/// and for all A = sum of A_i places, in order: `low` and `high` [A, 2], `scale` [A]. A distance is the mean of the R
/// distances by softmax of its R logits; the four of a place are left, top, right, bottom. The result is f32
/// [N, 4 + K, A]: centre and size of the box from low - (left, top) to high + (right, bottom), times scale, then the
/// sigmoid of each class.
struct Sizes {
  int64_t scales, batch, bins, classes, places;
};

template <class Context>
int64_t scales_of(const Context& ctx) {
  const int64_t scales = ctx.node().integer("scales", 0);
  const auto inputs = static_cast<int64_t>(ctx.node().inputs.size());
  if (scales < 1 || scales > inputs || 2 * scales + 4 != inputs)
    ctx.fail("inputs and scales disagree");
  return scales;
}

/// Of a list of places, where the shape is known.
const ir::Shape* logits(Inference& ctx, size_t input) {
  const ir::Shape* shape = ctx.shape(input);
  if (shape && shape->size() != 3) ctx.fail("logits are no lists of places");
  return shape;
}

void want_sizes(Inference& ctx, size_t input, const ir::Shape& wanted) {
  const ir::Shape* shape = ctx.shape(input);
  if (!shape) return;
  bool same = shape->size() == wanted.size();
  for (size_t axis = 0; same && axis < wanted.size(); ++axis) same = !differ((*shape)[axis], wanted[axis]);
  if (!same)
    ctx.fail("input " + std::to_string(input) + " is " + ir::str(*shape) + " where " + ir::str(wanted) + " is needed");
}

void infer(Inference& ctx) {
  const auto scales = static_cast<size_t>(scales_of(ctx));
  for (size_t at = 0; at < ctx.inputs(); ++at)
    if (ctx.dtype(at) != DType::undefined && wide_type(ctx.dtype(at)) != DType::f32)
      ctx.fail("takes f32, f16 and bf16");
  const ir::Shape* bins = ctx.shape(2 * scales);
  if (bins && (bins->empty() || product(*bins) == ir::Dim(0))) ctx.fail("there are no distances");
  ir::Dim places(0);
  for (size_t at = 0; at < scales; ++at) {
    const ir::Shape *boxes = logits(ctx, at), *scores = logits(ctx, scales + at);
    if (!boxes || !scores || !bins || !logits(ctx, scales)) return ctx.set(0, DType::f32, std::nullopt);
    const ir::Shape& first = *ctx.shape(scales);
    want_sizes(ctx, at, {first[0], (*scores)[1], product(*bins) * 4});
    want_sizes(ctx, scales + at, {first[0], (*boxes)[1], first[2]});
    places = places + (*boxes)[1];
  }
  for (size_t at = 1; at < 4; ++at)
    if (const ir::Shape* given = ctx.shape(2 * scales + at);
        given && differ(product(*given), at < 3 ? places * ir::Dim(2) : places))
      ctx.fail("input " + std::to_string(2 * scales + at) + " is " + ir::str(*given) + " for " + places.str() +
               " places");
  const ir::Shape& scores = *ctx.shape(scales);
  ctx.set(0, DType::f32, ir::Shape{scores[0], scores[2] + ir::Dim(4), places});
}

std::vector<float> floats(Evaluation& ctx, const Tensor& tensor) {
  const Tensor wide = as_f32(tensor);
  if (wide.dtype() != DType::f32) ctx.fail("takes f32, f16 and bf16");
  return {wide.data<float>(), wide.data<float>() + wide.elements()};
}

Sizes sizes_of(Evaluation& ctx) {
  Sizes s{scales_of(ctx), ctx.input(0).dims()[0], 0, 0, 0};
  const auto scales = static_cast<size_t>(s.scales);
  s.bins = ctx.input(2 * scales).elements();
  s.classes = ctx.input(scales).dims().back();
  for (size_t at = 0; at < scales; ++at) {
    const Dims &boxes = ctx.input(at).dims(), &scores = ctx.input(scales + at).dims();
    const int64_t places = boxes.rank() == 3 ? boxes[1] : 0;
    if (!(boxes == Dims{s.batch, places, 4 * s.bins}) || !(scores == Dims{s.batch, places, s.classes}))
      ctx.fail("logits are of other sizes");
    s.places += places;
  }
  for (size_t at = 1; at < 4; ++at)
    if (ctx.input(2 * scales + at).elements() != s.places * (at < 3 ? 2 : 1)) ctx.fail("places are of other sizes");
  return s;
}

/// Mean of the distances, weighted by softmax.
double distance(const float* logits, const std::vector<float>& bins) {
  double top = logits[0], sum = 0, mean = 0;
  for (size_t at = 1; at < bins.size(); ++at) top = std::max<double>(top, logits[at]);
  for (size_t at = 0; at < bins.size(); ++at) {
    const double weight = std::exp(logits[at] - top);
    sum += weight, mean += weight * bins[at];
  }
  return mean / sum;
}

void evaluate(Evaluation& ctx) {
  const Sizes s = sizes_of(ctx);
  const auto scales = static_cast<size_t>(s.scales);
  const auto constant = [&](size_t at) { return floats(ctx, ctx.input(2 * scales + at)); };
  const std::vector<float> bins = constant(0), low = constant(1), high = constant(2), scale = constant(3);
  float* out = ctx.output(0, DType::f32, {s.batch, 4 + s.classes, s.places}).data<float>();
  int64_t begin = 0;
  for (size_t at = 0; at < scales; ++at) {
    const std::vector<float> boxes = floats(ctx, ctx.input(at)), scores = floats(ctx, ctx.input(scales + at));
    const int64_t places = ctx.input(at).dims()[1];
    for (int64_t n = 0; n < s.batch; ++n)
      for (int64_t place = 0; place < places; ++place) {
        const int64_t row = n * places + place, a = begin + place;
        const auto put = [&](int64_t line, double value) {
          out[(n * (4 + s.classes) + line) * s.places + a] = static_cast<float>(value);
        };
        for (int64_t axis = 0; axis < 2; ++axis) {
          const double from = low[a * 2 + axis] - distance(&boxes[(row * 4 + axis) * s.bins], bins);
          const double to = high[a * 2 + axis] + distance(&boxes[(row * 4 + axis + 2) * s.bins], bins);
          put(axis, (from + to) / 2 * scale[a]);
          put(axis + 2, (to - from) * scale[a]);
        }
        for (int64_t k = 0; k < s.classes; ++k) put(4 + k, 1 / (1 + std::exp(-double{scores[row * s.classes + k]})));
      }
    begin += places;
  }
}

TENON_OP("tenon:BoxHead", 6, -1, 1, 1, infer, evaluate, {attr::integer("scales").at_least(1).required().internal()});

}  // namespace
}  // namespace tenon::ops::box_head

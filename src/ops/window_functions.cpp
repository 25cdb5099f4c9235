// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include "ops/dispatch.h"
#include "ops/inference.h"
#include "ops/scalar.h"

namespace tenon::ops::window_functions {
namespace {

DType output_type(const auto& ctx) {
  return static_cast<DType>(ctx.node().integer("output_datatype", static_cast<int64_t>(DType::f32)));
}

void infer_window(Inference& ctx) {
  const auto size = ctx.content(0);
  if (size && size->size() != 1) ctx.fail("the size is not a scalar");
  ctx.set(0, output_type(ctx), ir::Shape{size ? (*size)[0] : ctx.unknown()});
}

/// c0 - c1 cos(t) + c2 cos(2t), t from 0 to a full turn: at the end of a symmetric window, one past the end of a
/// periodic one.
template <int c0, int c1, int c2, int whole>
void evaluate_window(Evaluation& ctx) {
  const auto sizes = ctx.integers(0);
  if (sizes.size() != 1 || sizes[0] < 0) ctx.fail("the size is not a scalar of 0 or more");
  const int64_t size = sizes[0], span = std::max<int64_t>(1, ctx.node().integer("periodic", 1) ? size : size - 1);
  dispatch<Numbers>(ctx, output_type(ctx), [&]<class T>(Type<T>) {
    T* to = ctx.output(0, output_type(ctx), {size}).template data<T>();
    for (int64_t at = 0; at < size; ++at) {
      const double turn = 2 * std::numbers::pi * static_cast<double>(at) / static_cast<double>(span);
      to[at] = static_cast<T>(static_cast<Wide<T>>((c0 - c1 * std::cos(turn) + c2 * std::cos(2 * turn)) / whole));
    }
  });
}

void infer_mel(Inference& ctx) {
  const auto bins = ctx.content(0), length = ctx.content(1);
  ctx.set(0, output_type(ctx),
          ir::Shape{length && length->size() == 1 ? (*length)[0].floor_div(2) + 1 : ctx.unknown(),
                    bins && bins->size() == 1 ? (*bins)[0] : ctx.unknown()});
}

/// Triangles over the bins of a spectrum, equally wide on the mel scale m = 2595 log10(1 + f / 700).
void evaluate_mel(Evaluation& ctx) {
  const auto whole = [&](size_t input) {
    const auto list = ctx.integers(input);
    if (list.size() != 1 || list[0] < 1 || list[0] > (int64_t{1} << 24))
      ctx.fail("input " + std::to_string(input) + " is out of range");
    return list[0];
  };
  const auto hertz = [&](size_t input) {
    double value = 0;
    dispatch<Floats>(ctx, ctx.input(input).dtype(), [&]<class T>(Type<T>) {
      if (ctx.input(input).elements() != 1) ctx.fail("input " + std::to_string(input) + " is not a scalar");
      value = static_cast<Wide<T>>(*ctx.input(input).template data<T>());
    });
    return value;
  };
  const int64_t mels = whole(0), length = whole(1), rate = whole(2), bins = length / 2 + 1;
  const double low = 2595 * std::log10(1 + hertz(3) / 700), high = 2595 * std::log10(1 + hertz(4) / 700);
  std::vector<int64_t> edge;
  for (int64_t at = 0; at < mels + 2; ++at) {
    const double mel = low + static_cast<double>(at) * (high - low) / static_cast<double>(mels + 2);
    edge.push_back(static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * 700 *
                                                   (std::pow(10, mel / 2595) - 1) / static_cast<double>(rate))));
    if (edge.back() < 0 || edge.back() >= bins) ctx.fail("the frequencies leave the spectrum");
  }
  dispatch<Numbers>(ctx, output_type(ctx), [&]<class T>(Type<T>) {
    T* to = ctx.output(0, output_type(ctx), {bins, mels}).template data<T>();
    std::fill_n(to, bins * mels, T(0));
    for (int64_t mel = 0; mel < mels; ++mel) {
      const int64_t left = edge[mel], top = edge[mel + 1], right = edge[mel + 2];
      const auto put = [&](int64_t bin, int64_t part, int64_t of) {
        to[bin * mels + mel] =
            static_cast<T>(static_cast<Wide<T>>(static_cast<double>(part) / static_cast<double>(of)));
      };
      if (left == top) put(top, 1, 1);
      else
        for (int64_t bin = left; bin <= top; ++bin) put(bin, bin - left, top - left);
      for (int64_t bin = top; bin < right; ++bin) put(bin, right - bin, right - top);
    }
  });
}

TENON_OP("HannWindow", 1, 1, 1, 1, infer_window, evaluate_window<1, 1, 0, 2>,
         {attr::element_type("output_datatype"), attr::flag("periodic")});
TENON_OP("HammingWindow", 1, 1, 1, 1, infer_window, evaluate_window<25, 21, 0, 46>,
         {attr::element_type("output_datatype"), attr::flag("periodic")});
TENON_OP("BlackmanWindow", 1, 1, 1, 1, infer_window, evaluate_window<42, 50, 8, 100>,
         {attr::element_type("output_datatype"), attr::flag("periodic")});
TENON_OP("MelWeightMatrix", 5, 5, 1, 1, infer_mel, evaluate_mel, {attr::element_type("output_datatype")});

}  // namespace
}  // namespace tenon::ops::window_functions

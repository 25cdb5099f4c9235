// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/movement/col2im_params.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::col2im {
namespace {

using Params = Col2ImParams;
constexpr int64_t most = int64_t{1} << 31;

struct Axis {
  int64_t image = 1, block = 1, steps = 1, stride = 1, dilation = 1, pad = 0;
  int64_t share() const { return std::gcd(stride, dilation); }
  /// Of dilation / share modulo stride / share: which tap holds a pixel.
  int64_t inverse() const {
    const int64_t period = stride / share(), step = dilation / share() % period;
    // By Euclid: before = step * known modulo period, throughout.
    int64_t before = period, rest = step, old = 0, known = 1;
    while (rest > 1) {
      const int64_t times = before / rest;
      std::tie(before, rest) = std::pair(rest, before - times * rest);
      std::tie(old, known) = std::pair(known, old - times * known);
    }
    return period == 1 ? 1 : (known % period + period) % period;
  }
  std::string words() const {
    std::string list;
    for (const int64_t number : {image, block, steps, stride, dilation, pad, share(), inverse()})
      list += (list.empty() ? "" : ",") + std::to_string(number);
    return list;
  }
};
using Axes = std::array<Axis, 3>;

/// Whether pixels lie one behind the other, each with its channels side by side.
bool is_channels_last(const Operand& y) {
  if (y.dims.rank() < 3 || y.strides[1] != 1) return false;
  int64_t along = y.strides[y.dims.rank() - 1];
  if (along < y.dims[1] || along >= most) return false;
  for (size_t axis = y.dims.rank(); axis-- > 2; along *= y.dims[axis])
    if (y.strides[axis] != along) return false;
  return true;
}

Reason axes_of(const Problem& problem, Axes& axes) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!is_real(x.dtype) || x.dtype != y.dtype) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (!x.dense() || (!y.dense() && !is_channels_last(y))) return {Reason::view, "an operand"};
  const Tensor &image = problem.inputs[1].constant, &block = problem.inputs[2].constant;
  if (!image || !block) return {Reason::not_constant, "the sizes of image and block"};
  const auto rank = static_cast<size_t>(image.elements());
  if (rank < 1 || rank > 3) return {Reason::too_many, 3, "axes of an image"};
  if (x.dims.elements() == 0 || y.dims.elements() == 0) return Reason::empty;
  if (x.dims.elements() >= most || y.dims.elements() >= most) return Reason::too_large;
  const ir::Node& node = *problem.node;
  const std::vector<int64_t> ones(rank, 1), zeros(rank * 2, 0);
  const auto strides = node.integers("strides", ones), dilations = node.integers("dilations", ones),
             pads = node.integers("pads", zeros);
  axes = {};
  for (size_t own = 0; own < rank; ++own) {
    Axis& axis = axes[own + 3 - rank];
    axis = {image.data<int64_t>()[own], block.data<int64_t>()[own], 1, strides[own], dilations[own], pads[own]};
    const int64_t padded = axis.image + pads[own] + pads[own + rank],
                  room = padded - axis.dilation * (axis.block - 1) - 1;
    if (room < 0 || std::max({axis.image, axis.stride, axis.dilation * axis.block, padded}) >= most)
      return Reason::too_large;
    axis.steps = room / axis.stride + 1;
  }
  return {};
}

int64_t planes_of(const Problem& problem) { return problem.outputs[0].dims[0] * problem.outputs[0].dims[1]; }

Reason refuses(const Problem& problem, const Properties&) {
  Axes axes;
  return axes_of(problem, axes);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  Axes axes;
  axes_of(problem, axes);
  const bool last = !problem.outputs[0].dense();
  std::vector<Tactic> list;
  for (const int planes : {4, 2, 1}) {
    // Several share the arithmetic of places, where enough threads are left.
    const int64_t threads = problem.outputs[0].dims.elements() / planes;
    if (planes > 1 &&
        ((!last && planes_of(problem) % planes != 0) || threads < properties.multiprocessors * int64_t{512}))
      continue;
    const std::vector<std::string> defines{define_type("ELEMENT", problem.inputs[0].dtype),
                                           define("PLANES", planes),
                                           define("CHANNELS_LAST", last),
                                           "AXIS_0=" + axes[0].words(),
                                           "AXIS_1=" + axes[1].words(),
                                           "AXIS_2=" + axes[2].words()};
    const std::string name = (last ? "channels last " : "sums of ") + std::to_string(planes);
    list.push_back({name, {{"col2im.cu", defines, ""}}, {planes}});
  }
  return list;
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  const Operand& y = problem.outputs[0];
  const int64_t images = y.dims[0], channels = y.dims[1], planes = tactic.numbers[0];
  Params params{};
  params.count = static_cast<int>(y.dims.elements() / planes);
  if (y.dense()) return simple_step<1>(device, tactic, "col2im", params, grid_for(params.count));
  params.y_image = y.strides[0], params.y_pixel = static_cast<int>(y.strides[y.dims.rank() - 1]);
  params.channels = static_cast<int>(channels);
  const int64_t tiles = ceil_div(y.dims.elements() / images / channels, 32);
  return simple_step<1>(device, tactic, "col2im", params,
                        {tiles * ceil_div(channels, 8 * planes) * images, 1, 1, 256, 0});
}

const KernelRegistrar registered({"Col2Im", "col2im", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::col2im

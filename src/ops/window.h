// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/counted.h"
#include "ops/inference.h"

/// The sliding window shared by convolutions and pools, over 1 to 3 spatial axes. Contexts are Inference and
/// Evaluation.
namespace tenon::ops {

enum class AutoPad { none, valid, same_upper, same_lower };

inline AttributeDefs window_attributes() {
  return {attr::text("auto_pad").one_of({"", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}),
          attr::integers("dilations").at_least(1),
          attr::integer("group").at_least(1),
          attr::integers("kernel_shape").at_least(1),
          attr::integers("pads").at_least(0),
          attr::integers("strides").at_least(1)};
}

/// One entry per spatial axis; every number has been checked.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, begin, end;
  AutoPad auto_pad = AutoPad::none;
  bool ceil = false;
  size_t rank() const { return kernel.size(); }
  /// Input positions that the kernel spans along an axis.
  int64_t extent(size_t axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }
};

inline ir::Shape shape_of(const Dims& dims) { return ir::Shape(dims.begin(), dims.end()); }

inline Dims dims_of(const ir::Shape& shape) {
  Dims dims;
  for (const ir::Dim& dim : shape) dims.push_back(dim.value());
  return dims;
}

/// An unknown size of this node; different tags give different symbols, the same in every run.
template <class Context>
ir::Dim tagged_unknown(Context& ctx, const std::string& tag) {
  if constexpr (requires { ctx.unknown(); }) return ir::Dim::symbol(ctx.unknown().str() + "_" + tag);
  else ctx.fail("a size is not known");
}

/// A list attribute with one entry per spatial axis, each within [low, 2^31).
template <class Context>
std::vector<int64_t> window_list(Context& ctx, const std::string& name, size_t count, int64_t low, int64_t otherwise) {
  std::vector<int64_t> list = ctx.node().integers(name);
  if (list.empty()) list.assign(count, otherwise);
  if (list.size() != count)
    ctx.fail(name + " has " + counted(list.size(), "entry") + " where " + std::to_string(count) + " are needed");
  for (int64_t entry : list)
    if (entry < low || entry >= int64_t{1} << 31) ctx.fail(name + " holds " + std::to_string(entry));
  return list;
}

/// Reads strides, dilations, pads and auto_pad for a kernel of known sizes.
template <class Context>
Window read_window(Context& ctx, std::vector<int64_t> kernel) {
  Window window;
  const size_t rank = kernel.size();
  if (rank < 1 || rank > 3) ctx.fail(std::to_string(rank) + " spatial axes; 1 to 3 are supported");
  for (int64_t size : kernel)
    if (size < 1 || size >= int64_t{1} << 31) ctx.fail("a kernel size is " + std::to_string(size));
  window.strides = window_list(ctx, "strides", rank, 1, 1);
  window.dilations = window_list(ctx, "dilations", rank, 1, 1);
  window.kernel = std::move(kernel);
  const std::string mode = ctx.node().text("auto_pad", "NOTSET");
  if (mode == "VALID") window.auto_pad = AutoPad::valid;
  else if (mode == "SAME_UPPER") window.auto_pad = AutoPad::same_upper;
  else if (mode == "SAME_LOWER") window.auto_pad = AutoPad::same_lower;
  else if (mode != "NOTSET" && !mode.empty()) ctx.fail("auto_pad is \"" + mode + "\"");
  std::vector<int64_t> pads = window_list(ctx, "pads", rank * 2, 0, 0);
  if (window.auto_pad != AutoPad::none) pads.assign(rank * 2, 0);
  window.begin.assign(pads.begin(), pads.begin() + rank);
  window.end.assign(pads.begin() + rank, pads.end());
  window.ceil = ctx.node().integer("ceil_mode", 0) != 0;
  return window;
}

/// Output size along a spatial axis; fills begin and end of SAME padding where the input size is known.
template <class Context>
ir::Dim slide(Context& ctx, Window& window, size_t axis, const ir::Dim& input) {
  const int64_t extent = window.extent(axis), stride = window.strides[axis];
  if (window.auto_pad == AutoPad::same_upper || window.auto_pad == AutoPad::same_lower) {
    const ir::Dim output = input.ceil_div(stride);
    if (input.is_constant()) {
      const int64_t total = std::max<int64_t>(0, (output.value() - 1) * stride + extent - input.value());
      window.begin[axis] = window.auto_pad == AutoPad::same_upper ? total / 2 : total - total / 2;
      window.end[axis] = total - window.begin[axis];
    }
    return output;
  }
  const int64_t begin = window.begin[axis], end = window.end[axis];
  const ir::Dim room = input + (begin + end - extent);
  // With ceil_mode the only window may reach beyond the input, by less than a stride.
  if (input.is_constant() && room.value() < 0 && !(window.ceil && room.value() > -stride))
    ctx.fail("the kernel spans " + counted(extent, "position") + " of a padded input of " +
             std::to_string(input.value() + begin + end));
  if (!window.ceil) return room.floor_div(stride) + 1;
  const ir::Dim output = room.ceil_div(stride) + 1;
  // A window that starts beyond the input and its leading padding is dropped; it cannot when end + stride <= extent.
  if (input.is_constant()) return (output.value() - 1) * stride >= input.value() + begin ? output - 1 : output;
  return end + stride <= extent ? output : tagged_unknown(ctx, std::to_string(axis));
}

/// The same as fixed numbers over exactly three axes, leading ones of size 1: what kernels loop over.
struct Window3 {
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, begin{}, end{};
  int64_t in_plane() const { return in[0] * in[1] * in[2]; }
  int64_t out_plane() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  /// Output positions [first, second) whose input at kernel position k lies inside the input.
  std::pair<int64_t, int64_t> reach(size_t axis, int64_t k) const {
    const int64_t shift = k * dilation[axis] - begin[axis], step = stride[axis];
    const int64_t low = shift >= 0 ? 0 : (-shift + step - 1) / step;
    const int64_t high = in[axis] - 1 - shift < 0 ? 0 : (in[axis] - 1 - shift) / step + 1;
    return {low, std::max(low, std::min(high, out[axis]))};
  }
  /// Kernel positions [first, second) that lie inside the input for an output position.
  std::pair<int64_t, int64_t> taps_at(size_t axis, int64_t output) const {
    const int64_t start = output * stride[axis] - begin[axis], step = dilation[axis];
    const int64_t low = start >= 0 ? 0 : (-start + step - 1) / step;
    const int64_t high = in[axis] - 1 - start < 0 ? 0 : (in[axis] - 1 - start) / step + 1;
    return {low, std::max(low, std::min(high, kernel[axis]))};
  }
};

/// `in` and `out` are sizes of the spatial axes.
inline Window3 window3(const Window& window, const std::vector<int64_t>& in, const std::vector<int64_t>& out) {
  Window3 three;
  const size_t shift = 3 - window.rank();
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    three.in[axis + shift] = in[axis];
    three.out[axis + shift] = out[axis];
    three.kernel[axis + shift] = window.kernel[axis];
    three.stride[axis + shift] = window.strides[axis];
    three.dilation[axis + shift] = window.dilations[axis];
    three.begin[axis + shift] = window.begin[axis];
    three.end[axis + shift] = window.end[axis];
  }
  return three;
}

}  // namespace tenon::ops

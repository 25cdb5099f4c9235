// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/movement/unfold_params.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::unfold {
namespace {

using Params = UnfoldParams;
constexpr int64_t most = int64_t{1} << 31, shared_bytes = 40 << 10;

struct Shape {
  int64_t batch, channels, height, width, rows, columns;
  std::vector<int64_t> kernel, strides, dilations, pads;
  Dims xs;  // strides of images, channels, lines and columns

  explicit Shape(const Problem& problem) {
    const Operand &x = problem.inputs[0], &y = problem.outputs[0];
    const ir::Node& node = *problem.node;
    const bool last = node.text("layout", "NCHW") == "NHWC";
    const size_t channel = last ? 3 : 1, line = last ? 1 : 2;
    batch = x.dims[0], channels = x.dims[channel], height = x.dims[line], width = x.dims[line + 1];
    xs = {x.strides[0], x.strides[channel], x.strides[line], x.strides[line + 1]};
    rows = y.dims[4], columns = y.dims[5];
    const std::vector<int64_t> ones{1, 1}, zeros(4, 0);
    kernel = node.integers("kernel_shape"), strides = node.integers("strides", ones);
    dilations = node.integers("dilations", ones), pads = node.integers("pads", zeros);
  }
  /// Elements in shared memory of one channel and so many rows of windows.
  int64_t seen(int64_t some) const {
    return ((some - 1) * strides[0] + (kernel[0] - 1) * dilations[0] + 1) *
           ((columns - 1) * strides[1] + (kernel[1] - 1) * dilations[1] + 1);
  }
};

/// What a block takes.
struct Tile {
  int64_t channels, rows;
};

std::vector<Tile> tiles_of(const Problem& problem, const Shape& shape, int64_t multiprocessors) {
  const auto size = static_cast<int64_t>(size_of(problem.inputs[0].dtype));
  std::vector<Tile> list;
  for (const int64_t channels : {16, 32, 8, 1}) {
    if (channels > 8 && channels >= 2 * shape.channels) continue;
    const auto fits = [&](int64_t rows) { return channels * (shape.seen(rows) * size + 8) <= shared_bytes; };
    const auto blocks = [&](int64_t rows) {
      return shape.batch * ceil_div(shape.channels, channels) * ceil_div(shape.rows, rows);
    };
    int64_t rows = shape.rows;
    while (rows > 1 && (!fits(rows) || blocks(rows) < 2 * multiprocessors)) rows = ceil_div(rows, 2);
    if (fits(rows) && (channels > 1 || list.empty())) list.push_back({channels, rows});
  }
  return list;
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!*bits_name(size_of(x.dtype))) return {Reason::element_type, "elements", "1, 2, 4 or 8 bytes"};
  if (!y.dense()) return {Reason::view, "the result"};
  if (x.dims.elements() == 0 || y.dims.elements() == 0) return Reason::empty;
  // Tiles of eight channels may reach beyond the last one.
  if (x.dims.elements() >= most || y.dims.elements() >= most || y.dims.elements() / y.dims[0] >= most / 8)
    return Reason::too_large;
  const Shape shape(problem);
  if (std::max({shape.height, shape.width, shape.strides[0], shape.strides[1], shape.pads[0], shape.pads[1]}) >=
      most / 2)
    return Reason::too_large;
  return tiles_of(problem, shape, 1).empty() ? Reason(Reason::no_tile) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  const Shape shape(problem);
  const size_t size = size_of(problem.inputs[0].dtype);
  const int each = size < 8 && shape.columns % 2 == 0 && problem.outputs[0].aligned ? 2 : 1;
  std::vector<Tactic> list;
  for (const Tile& tile : tiles_of(problem, shape, properties.multiprocessors)) {
    Source source{"unfold.cu", {std::string("ELEMENT=") + bits_name(size)}, ""};
    for (const std::string& word :
         {define("CHANNELS", shape.channels), define("HEIGHT", shape.height), define("WIDTH", shape.width),
          define("KH", shape.kernel[0]), define("KW", shape.kernel[1]), define("STRIDE_H", shape.strides[0]),
          define("STRIDE_W", shape.strides[1]), define("DILATION_H", shape.dilations[0]),
          define("DILATION_W", shape.dilations[1]), define("TOP", shape.pads[0]), define("LEFT", shape.pads[1]),
          define("OH", shape.rows), define("OW", shape.columns), define("CC", tile.channels), define("ROWS", tile.rows),
          define("BY_CHANNEL", shape.xs[1] == 1 && shape.channels > 1), define("EACH", each)})
      source.defines.push_back(word);
    list.push_back({"windows " + std::to_string(tile.channels) + "x" + std::to_string(tile.rows),
                    {source},
                    {static_cast<int>(tile.channels), static_cast<int>(tile.rows)}});
  }
  return list;
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  const Shape shape(problem);
  Params params{};
  std::copy(shape.xs.begin(), shape.xs.end(), params.xs);
  const int64_t blocks =
      shape.batch * ceil_div(shape.channels, tactic.numbers[0]) * ceil_div(shape.rows, tactic.numbers[1]);
  return simple_step<1>(device, tactic, "unfold", params, {blocks, 1, 1, 256, 0});
}

const KernelRegistrar registered({"tenon:Unfold", "unfold", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::unfold

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/convolution/int8_blocks_params.h"
#include "backends/cuda/convolution/blocks_step.h"
#include "backends/cuda/convolution/int8_blocks.h"

namespace tenon::cuda::int8_stem {
namespace {

using Params = Int8BlocksParams;

/// The convolution over padded blocks. All taps of a row lie side by side in memory: they are the channels of one tap,
/// and pixels overlap.
struct Rows {
  Int8Blocks blocks;
  int64_t height, width;  // of the padded blocks
  ir::Node node;
  Problem problem;

  explicit Rows(const Problem& from) : blocks(from), problem(from) {
    const ConvShape& shape = blocks.shape;
    height = shape.out_h + blocks.taps_h - 1, width = shape.out_w + blocks.taps_w - 1;
    const int64_t depth = blocks.taps_w * blocks.channels;
    node = *from.node;
    for (const char* gone : {"input_layout", "auto_pad", "dilations", "pads", "kernel_shape"})
      node.attributes.erase(gone);
    node.attributes["strides"] = std::vector<int64_t>{1, 1};
    problem.node = &node;
    Operand& x = problem.inputs[0];
    x.dtype = DType::u8;
    x.dims = {shape.batch, height, shape.out_w, depth};
    x.strides = {height * width * blocks.channels, width * blocks.channels, blocks.channels, 1};
    x.aligned = true;
    Operand& w = problem.inputs[1];
    w.dims = {shape.out_c, depth, blocks.taps_h, 1};
    w.strides = backends::dense_strides(w.dims);
    w.constant = Tensor(DType::i8, w.dims);
    const std::vector<int8_t> weights = blocks.weights(from);
    int8_t* to = w.constant.data<int8_t>();
    for (int64_t n = 0; n < shape.out_c; ++n)
      for (int64_t row = 0; row < blocks.taps_h; ++row)
        for (int64_t k = 0; k < depth; ++k)
          to[(n * depth + k) * blocks.taps_h + row] = weights[(n * blocks.taps_h + row) * depth + k];
  }
  Rows(const Rows&) = delete;
  int64_t pixels() const { return blocks.shape.batch * height * width; }
  size_t bytes() const { return static_cast<size_t>(pixels() * blocks.channels); }
  Source source() const {
    return source_from({"quantise.cuh", "int8_blocks.cu"},
                       {define_type("ELEMENT", blocks.shape.x_type), define("C", blocks.shape.in_c),
                        define("CH", blocks.channels), define("BLOCK", blocks.block)});
  }
};

Reason refuses(const Problem& problem, const Properties&) {
  ConvShape shape{};
  return refuses_int8_blocks(problem, shape);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  const Rows rows(problem);
  return blocks_tactics(rows.problem, properties, rows.source());
}

class Int8StemStep : public BlocksStep<Params> {
 public:
  Int8StemStep(const Rows& rows, Device& device, const std::string& name)
      : BlocksStep(rows.problem, device, name, rows.bytes(), rows.source(), "int8_blocks") {
    const Int8Blocks& blocks = rows.blocks;
    const ConvShape& shape = blocks.shape;
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    params_.in_h = number(shape.in_h), params_.in_w = number(shape.in_w);
    params_.out_h = number(rows.height), params_.out_w = number(rows.width);
    params_.pad_top = number(blocks.pad_top), params_.pad_left = number(blocks.pad_left);
    params_.count = number(rows.pixels());
    params_.zero = blocks.conv.x_zero, params_.scale = blocks.conv.x_scale;
    params_.inverse = 1.f / blocks.conv.x_scale;
    std::copy(std::begin(shape.x), std::end(shape.x), params_.xs);
  }
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return std::make_unique<Int8StemStep>(Rows(problem), device, tactic.name);
}

const KernelRegistrar registered({"tenon:Int8Conv", "stem", 4, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::int8_stem

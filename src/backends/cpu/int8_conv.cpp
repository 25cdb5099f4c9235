// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cpu/conv.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/int8/conv_int8.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "base/pages.h"
#include "ops/fused_operands.h"

namespace tenon::cpu::int8_conv {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

// Inputs behind those of Conv.
enum : size_t { x_scale = 4, x_zero, w_scale, y_scale, y_zero, r_scale, r_zero };

bool has(const Problem& problem, size_t at) { return at < problem.inputs.size() && problem.inputs[at]; }
/// One number, or that of a channel; 1 where there is none.
float scale_at(const Problem& problem, size_t at, int64_t channel = 0) {
  if (!has(problem, at)) return 1;
  const Tensor& scales = problem.inputs[at].constant;
  if (!scales) return 1;  // it is dynamic
  return scales.data<float>()[scales.elements() == 1 ? 0 : channel];
}
/// A zero point; of uint16 as int16 holds it.
int32_t zero_at(const Problem& problem, size_t at) {
  if (!has(problem, at) || !problem.inputs[at].constant) return 0;
  const Tensor& zero = problem.inputs[at].constant;
  if (zero.dtype() == DType::i16) return *zero.data<int16_t>();
  return zero.dtype() == DType::u16 ? *zero.data<uint16_t>() + INT16_MIN : int32_t{*zero.data<uint8_t>()};
}

/// An image of numbers, or of planes, that has to become bytes with channels last before the kernels can read it.
struct Image {
  bool needed = false, planes, numbers;
  int64_t batch, height, width, channels;
  int64_t image, row, pixel, channel;  // strides, in elements
  float scale;
  int32_t zero;
  size_t bytes() const { return needed ? static_cast<size_t>(batch * height * width * channels) : 0; }
};

Image image_of(const Problem& problem, const ConvNode& node) {
  const Operand& x = problem.inputs[0];
  Image p{};
  p.planes = node.in_nchw;
  p.numbers = x.dtype == DType::f32;
  p.needed = (p.planes || p.numbers) && !ops::reads_int16(*problem.node);
  const size_t h = p.planes ? 2 : 1, c = p.planes ? 1 : 3;
  p.batch = x.dims[0], p.height = x.dims[h], p.width = x.dims[h + 1], p.channels = x.dims[c];
  p.image = x.strides[0], p.row = x.strides[h], p.pixel = x.strides[h + 1], p.channel = x.strides[c];
  p.scale = scale_at(problem, x_scale);
  p.zero = zero_at(problem, x_zero);
  return p;
}

/// Whether scale and zero point of the input are known only when it runs.
bool is_dynamic(const Problem& problem) {
  return has(problem, x_scale) && has(problem, x_zero) && !problem.inputs[x_scale].constant &&
         !problem.inputs[x_zero].constant;
}

/// What an Int8Conv points into.
struct Lists {
  std::vector<float> multiplier, inverse_scale, residual_scale;
  std::vector<int16_t> weights;
  std::shared_ptr<Int8Dynamic> dynamic = std::make_shared<Int8Dynamic>();
};

/// Sizes and strides of what the kernels read.
Reason shape_of(const Problem& problem, const ConvNode& node, ConvShape& shape) {
  if (const Reason reason = conv_shape_of(node, conv_operands(problem), shape)) return reason;
  if (node.count && problem.inputs[0].dtype != DType::u8) return {Reason::element_type, "elements", "u8"};
  if (node.count) return {};
  if (const Image image = image_of(problem, node); image.needed) {
    shape.in_nchw = false;
    shape.in_pixel = image.channels;
    shape.in_row = image.width * shape.in_pixel;
    shape.in_image = image.height * shape.in_row;
  }
  return {};
}

/// The problem as its kernels take it; the reason when it is none.
Reason conv_of(const Problem& problem, Int8Conv& conv, Lists& lists) {
  const DType from = problem.inputs[0].dtype, to = problem.outputs[0].dtype;
  if ((from != DType::u8 && from != DType::f32) || (to != DType::u8 && to != DType::f32))
    return {Reason::element_type, "elements", "u8 or f32"};
  const bool dynamic = is_dynamic(problem);
  const ConvNode node(*problem.node);
  if (dynamic && (from != DType::u8 || to != DType::f32 || node.epilogue.residual != Residual::none))
    return {Reason::scales, "constant where the input is no u8, the result no f32 or a residual is added"};
  for (size_t at = dynamic ? w_scale : x_scale; at < problem.inputs.size(); ++at)
    if (has(problem, at) && !problem.inputs[at].constant) return {Reason::not_constant, "scales and zero points"};
  if (const Reason reason = shape_of(problem, node, conv.shape)) return reason;
  const double factor = scale_at(problem, x_scale);
  for (int64_t channel = 0; channel < conv.shape.out_c; ++channel) {
    lists.multiplier.push_back(static_cast<float>(factor * scale_at(problem, w_scale, channel)));
    lists.inverse_scale.push_back(1.f / scale_at(problem, y_scale, channel));
    lists.residual_scale.push_back(scale_at(problem, r_scale, channel));
  }
  conv.epilogue = node.epilogue;
  const Tensor& weights = problem.inputs[1].constant;
  lists.weights.resize(static_cast<size_t>(weights.elements()));
  if (weights.dtype() == DType::i8) std::copy_n(weights.data<int8_t>(), weights.elements(), lists.weights.data());
  else std::copy_n(weights.data<int16_t>(), weights.elements(), lists.weights.data());
  release_pages(weights.data(), weights.bytes());
  conv.weights = lists.weights.data();
  conv.multiplier = lists.multiplier.data();
  conv.bias = has(problem, 2) ? problem.inputs[2].constant.data<float>() : nullptr;
  conv.in_zero = zero_at(problem, x_zero);
  if (ops::reads_int16(*problem.node))
    conv.in_scale = scale_at(problem, x_scale), conv.in_low = INT16_MIN - conv.in_zero,
    conv.in_high = INT16_MAX - conv.in_zero;
  conv.residual_scale = has(problem, r_scale) ? lists.residual_scale.data() : nullptr;
  conv.residual_zero = zero_at(problem, r_zero);
  conv.inverse_scale = has(problem, y_scale) ? lists.inverse_scale.data() : nullptr;
  conv.out_zero = zero_at(problem, y_zero);
  conv.dynamic = dynamic ? lists.dynamic.get() : nullptr;
  return {};
}

class Int8ConvStep : public backends::Step {
 public:
  Int8ConvStep(std::unique_ptr<Int8Kernel> kernel, std::shared_ptr<Int8Dynamic> dynamic, const Problem& problem)
      : kernel_(std::move(kernel)),
        dynamic_(std::move(dynamic)),
        node_(*problem.node),
        weights_(problem.inputs[1].constant) {
    fit(problem);
  }
  std::unique_ptr<Step> resized(const Problem& problem) const override {
    ConvShape shape{};
    if (dynamic_ || problem.inputs[1].constant.data() != weights_.data() || shape_of(problem, node_, shape))
      return nullptr;
    auto kernel = kernel_->resized(shape, problem.threads);
    if (!kernel) return nullptr;
    auto other = std::make_unique<Int8ConvStep>(*this);
    other->kernel_ = std::move(kernel);
    other->fit(problem);
    return other;
  }
  size_t workspace_bytes() const override {
    return image_.needed ? image_at_ + image_.bytes() : kernel_->workspace_bytes();
  }
  size_t packed_bytes() const override { return kernel_->packed_bytes(); }
  bool shared() const override { return !dynamic_; }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const uint8_t*>(inputs[0]);
    if (dynamic_ && worker.id == 0)
      *dynamic_ = {*reinterpret_cast<const float*>(inputs[x_scale]), *reinterpret_cast<const uint8_t*>(inputs[x_zero])};
    if (image_.needed) {
      auto* const bytes = reinterpret_cast<uint8_t*>(worker.workspace + image_at_);
      convert(inputs[0], bytes, worker);
      x = bytes;
    }
    if (image_.needed || dynamic_) worker.sync();
    const auto* residual =
        node_.epilogue.residual != Residual::none ? reinterpret_cast<const uint8_t*>(inputs[3]) : nullptr;
    // Each part of the work falls to the same worker in all volumes: no barrier is needed between them.
    for (int64_t at = 0; at < volumes_.count; ++at)
      kernel_->run(x + at * volumes_.in, dynamic_ ? dynamic_->zero : image_.zero,
                   residual ? residual + at * volumes_.residual : nullptr, outputs[0] + at * volumes_.out, worker);
  }

 private:
  static constexpr int64_t most = 256;  // pixels of a row converted together

  void fit(const Problem& problem) {
    if (!node_.count) image_ = image_of(problem, node_);
    image_.zero = zero_at(problem, x_zero);
    volumes_ = volumes_of(node_, conv_operands(problem));
    volumes_.out *= static_cast<int64_t>(size_of(problem.outputs[0].dtype));
    image_at_ = (kernel_->workspace_bytes() + 63) / 64 * 64;
  }

  /// This worker's rows of the image, as bytes with channels last.
  void convert(const std::byte* x, uint8_t* to, const Worker& worker) const {
    constexpr int64_t together = 4;
    const Image& p = image_;
    int64_t begin, end;
    worker.share(p.batch * p.height, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t from = row / p.height * p.image + row % p.height * p.row;
      uint8_t* const pixels = to + row * p.width * p.channels;
      for (int64_t c = 0; c < p.channels;) {
        if (p.numbers && p.pixel == 1) {
          const int64_t planes = std::min(together, p.channels - c);
          loops_.quantise_pixels(pixels + c, p.channels, reinterpret_cast<const float*>(x) + from + c * p.channel,
                                 p.channel, static_cast<int>(planes), p.scale, p.zero, p.width);
          c += planes;
          continue;
        }
        for (int64_t column = 0; column < p.width; column += most) {
          const int64_t count = std::min(most, p.width - column);
          uint8_t line[most];
          take(x, from + column * p.pixel + c * p.channel, count, line);
          for (int64_t at = 0; at < count; ++at) pixels[(column + at) * p.channels + c] = line[at];
        }
        ++c;
      }
    }
  }
  /// A channel of `count` pixels as bytes.
  void take(const std::byte* x, int64_t from, int64_t count, uint8_t* line) const {
    const int64_t step = image_.pixel;
    if (!image_.numbers) {
      for (int64_t at = 0; at < count; ++at) line[at] = reinterpret_cast<const uint8_t*>(x)[from + at * step];
      return;
    }
    float numbers[most];
    for (int64_t at = 0; at < count; ++at) numbers[at] = reinterpret_cast<const float*>(x)[from + at * step];
    loops_.quantise_u8(line, numbers, image_.scale, image_.zero, count);
  }

  std::shared_ptr<const Int8Kernel> kernel_;
  std::shared_ptr<Int8Dynamic> dynamic_;  // or null; the kernel reads it
  const Loops& loops_ = loops(active_isa());
  ConvNode node_;
  Tensor weights_;
  Image image_{};
  ConvVolumes volumes_;
  size_t image_at_ = 0;
};

// Where int8_tactics() lists the kernels that need more than a set of vectors, or to be told of dynamic zero points.
constexpr size_t pairs_at = 0, dot_at = 2, tiles_at = 5, columns_at = 6, quads_at = 7, of_floats_at = 8,
                 of_floats_dot_at = 9;

template <size_t index>
Reason refuses(const Problem& problem) {
  if ((index == dot_at || index == columns_at || index == quads_at) && !has_int8_dot(active_isa()))
    return {Reason::instruction, "products of four bytes"};
  if (index == of_floats_dot_at && !has_int8_dot(active_isa())) return {Reason::instruction, "sums of two products"};
  if (index == tiles_at && active_isa() != Isa::amx) return {Reason::instruction, "tiles"};
  Int8Conv conv{};
  Lists lists;
  if (const Reason reason = conv_of(problem, conv, lists)) return reason;
  return int8_tactics()[index].refuses(conv);
}

template <size_t index>
std::unique_ptr<backends::Step> make(const Problem& problem) {
  Int8Conv conv{};
  Lists lists;
  conv_of(problem, conv, lists);
  conv.cache = problem.weights, conv.constant = problem.inputs[1].constant.data();
  conv.zero_last = conv.dynamic && (index == pairs_at || index == dot_at);
  return std::make_unique<Int8ConvStep>(int8_tactics()[index].make(conv, active_isa(), problem.threads),
                                        conv.dynamic ? lists.dynamic : nullptr, problem);
}

const backends::KernelRegistrar pairs({"tenon:Int8Conv", "int8x2", 2, refuses<0>, make<0>, "int8_direct"});
const backends::KernelRegistrar widened({"tenon:Int8Conv", "int8_int16", 1, refuses<1>, make<1>, "int8_direct"});
const backends::KernelRegistrar dot({"tenon:Int8Conv", "int8_dot", 4, refuses<dot_at>, make<dot_at>, "int8_direct"});
/// Of frames, which they read where these lie.
const backends::KernelRegistrar frames_pairs({"tenon:Int8FramesConv", "int8x2", 2, refuses<0>, make<0>, "int8_direct"});
const backends::KernelRegistrar frames_widened({"tenon:Int8FramesConv", "int8_int16", 1, refuses<1>, make<1>,
                                                "int8_direct"});
const backends::KernelRegistrar frames_dot({"tenon:Int8FramesConv", "int8_dot", 4, refuses<dot_at>, make<dot_at>,
                                            "int8_direct"});
const backends::KernelRegistrar depthwise({"tenon:Int8Conv", "int8_depthwise", 5, refuses<3>, make<3>,
                                           "int8_depthwise"});
const backends::KernelRegistrar winograd({"tenon:Int8Conv", "int8_winograd", 3, refuses<4>, make<4>, "int8_winograd"});
const backends::KernelRegistrar tiles({"tenon:Int8Conv", "int8_tiles", 5, refuses<tiles_at>, make<tiles_at>,
                                       "int8_tiles"});
const backends::KernelRegistrar columns({"tenon:Int8Conv", "int8_columns", 6, refuses<columns_at>, make<columns_at>,
                                         "int8_columns"});
const backends::KernelRegistrar quads({"tenon:Int8Conv", "int8_quads", 6, refuses<quads_at>, make<quads_at>,
                                       "int8_quads"});

const backends::KernelRegistrar wide({"tenon:Int16Conv", "int16", 1, refuses<of_floats_at>, make<of_floats_at>,
                                      "int8_direct"});
const backends::KernelRegistrar wide_dot({"tenon:Int16Conv", "int16_dot", 2, refuses<of_floats_dot_at>,
                                          make<of_floats_dot_at>, "int8_direct"});

}  // namespace
}  // namespace tenon::cpu::int8_conv

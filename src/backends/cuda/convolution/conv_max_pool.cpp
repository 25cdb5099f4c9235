// SPDX-License-Identifier: Apache-2.0
#include "ops/conv_max_pool.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/convolution/conv_max_pool_params.h"
#include "backends/cuda/convolution/int8_conv.h"
#include "backends/cuda/convolution/conv_step.h"
#include "ops/op.h"

namespace tenon::cuda::conv_max_pool {
namespace {

using Params = ConvMaxPoolParams;

constexpr int strip_columns = 7;  // of maxima that a warp makes
constexpr int most_registers = 65536, most_threads = 512;

/// Whether an attribute of two numbers, 1 by default, is this one twice.
bool is_both(const ir::Node& node, const char* attribute, int64_t value) {
  return node.integers(attribute, {1, 1}) == std::vector<int64_t>{value, value};
}

/// The convolution as a problem of its own.
struct Pooled {
  ops::ConvMaxPool nodes;
  Problem problem;
  ConvShape shape{};
  Int8Conv bytes;  // where it is one
  int64_t out_h = 0, out_w = 0, pool_top = 0, pool_left = 0;

  explicit Pooled(const Problem& from) : nodes(ops::conv_max_pool_of(*from.node)), problem(from) {
    problem.node = &nodes.conv;
  }
  Pooled(const Pooled&) = delete;

  bool is_int8() const { return ops::has_trait(nodes.conv.op, ops::Trait::quantised); }
  int width() const { return static_cast<int>(ceil_div(shape.out_c, 32) * 32); }
  int chunks() const { return shape.kernel_w > 4 ? 2 : 1; }
  /// Rows of the kernel that are one step together.
  int rows() const { return is_int8() && chunks() == 1 ? 2 : 1; }
  int across() const { return is_int8() ? 1 : chunks(); }
  int steps() const { return static_cast<int>(ceil_div(shape.kernel_h, rows())) * across(); }
  /// Whether four neighbours of a row are one load, and lie on one side of each border.
  bool reads_quads() const {
    const bool whole = shape.in_w % 4 == 0 && shape.x[0] % 4 == 0 && shape.x[1] % 4 == 0 && shape.x[3] % 4 == 0;
    return whole && shape.x[2] == 1 && problem.inputs[0].aligned;
  }
  /// Registers of a thread that makes so many channels, roughly: weights, three lines of sums, and all others.
  int registers(int channels) const { return (2 * steps() + 12) * channels / 8 + 44; }

  Reason refuses() {
    const Operand &x = problem.inputs[0], &w = problem.inputs[1];
    Operand& y = problem.outputs[0];
    if (x.dims.rank() != 4 || w.dims.rank() != 4) return {Reason::shape, "the input", "two spatial axes"};
    const ir::Node &conv = nodes.conv, &pool = nodes.pool;
    if (conv.text("layout", "") != "NHWC" || pool.text("layout", "") != "NHWC") return {Reason::layout, "NHWC"};
    if (conv.text("auto_pad", "NOTSET") != "NOTSET" || pool.text("auto_pad", "NOTSET") != "NOTSET")
      return {Reason::padding, "given in numbers"};
    const auto pads = conv.integers("pads", {0, 0, 0, 0}), pool_pads = pool.integers("pads", {0, 0, 0, 0});
    if (!is_both(conv, "strides", 2) || !is_both(conv, "dilations", 1)) return {Reason::strides, "2, without dilation"};
    if (!is_both(pool, "kernel_shape", 3) || !is_both(pool, "strides", 2) || !is_both(pool, "dilations", 1))
      return {Reason::window, "3x3 with strides of 2"};
    if (pool_pads[0] > 1 || pool_pads[1] > 1) return {Reason::padding, "0 or 1"};
    const bool first = conv.text("input_layout", conv.text("layout", "")) == "NCHW";
    const auto made = [&](size_t axis) {
      return (x.dims[axis + (first ? 2 : 1)] + pads[axis] + pads[axis + 2] - w.dims[axis + 2]) / 2 + 1;
    };
    const int64_t result[] = {y.strides[0], y.strides[1], y.strides[2], y.strides[3]};
    out_h = y.dims[1], out_w = y.dims[2];
    pool_top = pool_pads[0], pool_left = pool_pads[1];
    y.dims = {x.dims[0], made(0), made(1), w.dims[0]};
    y.strides = backends::dense_strides(y.dims);
    if (const Reason reason = is_int8() ? int8_conv(problem, bytes) : conv_shape(problem, shape)) return reason;
    if (is_int8()) shape = bytes.shape;
    if (2 * (out_h - 1) - pool_top + 1 >= shape.out_h || 2 * (out_w - 1) - pool_left >= shape.out_w)
      return {Reason::shape, "the last window", "two rows and a column"};
    std::copy(std::begin(result), std::end(result), shape.y);
    return refuses_shape();
  }

 private:
  Reason refuses_shape() const {
    if (is_int8() ? shape.y_type != DType::u8 : !is_16_bit(shape.y_type))
      return {Reason::element_type, "results", "f16, bf16 or u8"};
    const ops::Epilogue epilogue = conv_epilogue(problem);
    if (has_residual(problem) || epilogue.residual != ops::Residual::none) return Reason::residual;
    if (!ops::expression(epilogue.activation).is_clamp) return {Reason::activation, "a clamp"};
    if (std::any_of(bytes.scale.begin(), bytes.scale.end(), [](float scale) { return !(scale > 0); }))
      return {Reason::scales, "positive"};
    if (shape.groups != 1) return Reason::grouped;
    if (shape.in_c > 4) return {Reason::too_many, 4, "channels"};
    if (shape.kernel_w > 8 || shape.kernel_h > 8) return {Reason::window, "8x8 at most"};
    if (shape.out_c % 8) return {Reason::not_multiple, "output channels", 8};
    if (shape.out_c > 128) return {Reason::too_many, 128, "output channels"};
    if (shape.y[3] != 1 || !problem.outputs[0].aligned) return {Reason::not_contiguous, "channels"};
    for (int at = 0; at < 3; ++at)
      if (shape.y[at] % 8) return {Reason::unaligned, "pixels"};
    int64_t extent = 0;
    const int64_t sizes[] = {shape.in_h, shape.in_w, shape.in_c};
    for (int at = 0; at < 3; ++at) extent += sizes[at] * shape.x[at + 1];
    return extent >= int64_t{1} << 30 || shape.batch * out_h * ceil_div(out_w, strip_columns) >= int64_t{1} << 31
               ? Reason(Reason::too_large)
               : Reason();
  }
};

Reason refuses(const Problem& problem, const Properties& properties) {
  if (properties.capability() < 80) return {Reason::capability, "it", "8.0"};
  Pooled pooled(problem);
  if (const Reason reason = pooled.is_int8() ? Reason() : refuses_added_zeros(problem)) return reason;
  return pooled.refuses();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  Pooled pooled(problem);
  pooled.refuses();
  const ConvShape& shape = pooled.shape;
  std::vector<Tactic> list;
  struct Form {
    int rows, strips, channels;
    bool ahead;
  };
  static constexpr Form forms[] = {{14, 2, 32, false}, {14, 2, 32, true}, {14, 4, 32, true}, {14, 2, 16, false},
                                   {14, 2, 16, true},  {7, 2, 32, false}, {7, 2, 32, true},  {7, 4, 32, false},
                                   {7, 4, 32, true},   {7, 2, 16, false}, {7, 2, 16, true},  {4, 2, 32, false},
                                   {4, 1, 32, false},  {4, 1, 16, false}, {2, 2, 32, false}, {2, 2, 16, false},
                                   {1, 2, 32, false},  {1, 2, 16, false}};
  for (const Form& form : forms) {
    const int threads = 32 * form.strips * pooled.width() / form.channels;
    const int registers = (pooled.registers(form.channels) + 7) / 8 * 8;
    if (threads > most_threads || registers > 248 || threads * registers > most_registers) continue;
    if (!list.empty() && (form.rows > 2 * pooled.out_h || (form.strips - 1) * strip_columns >= pooled.out_w)) continue;
    const int blocks = most_registers / registers / threads;  // of a multiprocessor
    // Many rows are for many tiles, few for few.
    const int64_t tiles =
        shape.batch * ceil_div(pooled.out_h, form.rows) * ceil_div(pooled.out_w, form.strips * strip_columns);
    if (!list.empty() && form.rows < 7 && tiles > 16 * properties.multiprocessors) continue;
    if (form.ahead && (!pooled.reads_quads() || shape.x_type != DType::f32 || tiles <= properties.multiprocessors))
      continue;
    std::vector<std::string> defines =
        pooled.is_int8() ? int8_defines(pooled.bytes) : epilogue_defines(conv_epilogue(pooled.problem));
    if (!pooled.is_int8())
      for (const char* none : {"STRICT=0", "FP8=0", "LISTED=0", "YZ=0", "IN_STEPS=0"}) defines.push_back(none);
    for (const std::string& word :
         {define_type("ELEMENT", shape.x_type), define("BYTES", pooled.is_int8()), define("C", shape.in_c),
          define("KH", shape.kernel_h), define("KW", shape.kernel_w), define("TH", form.rows),
          define("STRIPS", form.strips), define("NW", form.channels), define("WIDTH", pooled.width()),
          define("COUT", shape.out_c), define("QUADS", pooled.reads_quads()), define("AHEAD", form.ahead),
          define("LEAST_BLOCKS", blocks)})
      defines.push_back(word);
    list.push_back({"image and pool " + std::to_string(form.rows) + "x" +
                        std::to_string(form.strips * strip_columns) + " of " + std::to_string(form.channels) +
                        (form.ahead ? " ahead" : ""),
                    {byte_source({"quantise.cuh", "conv_max_pool.cu"}, std::move(defines))},
                    {form.rows, form.strips, form.channels, threads, blocks}});
  }
  return list;
}

class ConvMaxPoolStep : public ConvStep<Params> {
 public:
  ConvMaxPoolStep(const Problem& problem, Device& device, const Tactic& tactic)
      : ConvStep(device, tactic.sources[0], "conv_max_pool", device.constants(tactic.sources[0], "meta")[0]) {
    Pooled pooled(problem);
    pooled.refuses();
    const ConvShape& shape = pooled.shape;
    const int rows = tactic.numbers[0], strips = tactic.numbers[1], threads = tactic.numbers[3];
    std::vector<std::byte> bytes;
    std::vector<uint32_t> numbers;
    if (pooled.is_int8()) {
      const std::vector<int8_t> weights = int8_weights(pooled.problem, shape);
      bytes = packed(pooled, tactic.numbers[2], [&](size_t at) { return weights[at]; });
      numbers = numbers_of(pooled.bytes, zero_sums(pooled.bytes, weights), pooled.width());
      params_.x_zero = pooled.bytes.x_zero, params_.x_scale = pooled.bytes.x_scale;
      params_.x_inverse = 1.f / pooled.bytes.x_scale;
      params_.finish = finish_of(pooled.bytes);
    } else {
      const std::vector<float> weights = conv_weights(pooled.problem, shape);
      bytes = packed(pooled, tactic.numbers[2], [&](size_t at) { return bits16_of(weights[at], shape.y_type); });
      Int8Conv plain;
      plain.bias = conv_bias(pooled.problem, shape), plain.epilogue = conv_epilogue(pooled.problem);
      numbers = numbers_of(plain, {}, pooled.width());
      params_.finish = finish_of(plain);
    }
    const size_t begin = bytes.size();
    bytes.resize(begin + numbers.size() * 4);
    std::memcpy(bytes.data() + begin, numbers.data(), numbers.size() * 4);
    params_.w = pack(bytes.data(), bytes.size()), params_.lists = lists_at(params_.w + begin, pooled.width());
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    params_.image = shape.x[0];
    params_.row = number(shape.x[1]), params_.pixel = number(shape.x[2]), params_.channel = number(shape.x[3]);
    for (int at = 0; at < 3; ++at) params_.ys[at] = shape.y[at];
    params_.in_h = number(shape.in_h), params_.in_w = number(shape.in_w);
    params_.conv_h = number(shape.out_h), params_.conv_w = number(shape.out_w);
    params_.out_h = number(pooled.out_h), params_.out_w = number(pooled.out_w);
    params_.pad_top = shape.pad_top, params_.pad_left = shape.pad_left;
    params_.pool_top = number(pooled.pool_top), params_.pool_left = number(pooled.pool_left);
    // Tiles begin at multiples of four but for what is padded.
    params_.skew = pooled.reads_quads() ? (4 - (2 * params_.pool_left + params_.pad_left) % 4) % 4 : 0;
    params_.tiles_x = number(ceil_div(pooled.out_w, strips * strip_columns));
    params_.tiles_y = number(ceil_div(pooled.out_h, rows));
    params_.tiles = number(shape.batch * params_.tiles_x * params_.tiles_y);
    const int shared = device.constants(tactic.sources[0], "meta")[0];
    const int64_t together =
        std::clamp<int64_t>(device.properties().shared_bytes / (shared + 1024), 1, tactic.numbers[4]);
    const int64_t blocks = together * device.properties().multiprocessors;
    grid_ = {std::min<int64_t>(params_.tiles, blocks), 1, 1, threads, shared};
  }

 private:
  /// Weights in the kernel's order; `at` gives one of [out_c][kernel_h][kernel_w][in_c].
  template <class At>
  static std::vector<std::byte> packed(const Pooled& pooled, int channels, const At& at) {
    using Weight = decltype(at(0));
    const ConvShape& s = pooled.shape;
    const int64_t own = channels / 4, count = 8 / static_cast<int64_t>(sizeof(Weight));  // of a lane in a step
    std::vector<Weight> list;
    for (int64_t group = 0; group < pooled.width() / channels; ++group)
      for (int64_t step = 0; step < pooled.steps(); ++step)
        for (int64_t eight = 0; eight < channels / 8; ++eight)
          for (int64_t lane = 0; lane < 32; ++lane)
            for (int64_t k = 0; k < count; ++k) {
              const int64_t n = lane / 4, result = group * channels + n / 2 * own + 2 * eight + n % 2;
              const int64_t half = k / 4;  // of bytes: the second four
              const int64_t row = step / pooled.across() * pooled.rows() + (pooled.rows() == 2 ? half : 0);
              const int64_t column = lane % 4 + 4 * (step % pooled.across()) + (pooled.rows() == 1 ? 4 * half : 0);
              const bool real = result < s.out_c && row < s.kernel_h && column < s.kernel_w && k % 4 < s.in_c;
              const int64_t from = ((result * s.kernel_h + row) * s.kernel_w + column) * s.in_c + k % 4;
              list.push_back(real ? at(static_cast<size_t>(from)) : Weight{0});
            }
    std::vector<std::byte> bytes(list.size() * sizeof(Weight));
    std::memcpy(bytes.data(), list.data(), bytes.size());
    return bytes;
  }
};

const KernelRegistrar registered({"tenon:ConvMaxPool", "tenon:Int8ConvMaxPool"},
                                 {"", "image and pool", 1, refuses, tactics, make_step<ConvMaxPoolStep>});

}  // namespace
}  // namespace tenon::cuda::conv_max_pool

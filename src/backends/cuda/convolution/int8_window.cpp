// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <optional>

#include "backends/cuda/convolution/int8_window_params.h"
#include "backends/cuda/convolution/int8_blocks.h"
#include "backends/cuda/convolution/conv_step.h"

namespace tenon::cuda::int8_window {
namespace {

using Params = Int8WindowParams;

constexpr int64_t most_shared = 96 << 10;
constexpr int tile_columns = 32;

/// Channels of the results, padded to what a quad of lanes divides.
int width_of(const ConvShape& shape) { return shape.out_c <= 16 ? 16 : shape.out_c <= 32 ? 32 : 64; }

/// What the kernel keeps in shared memory: blocks of an image, or the pixels as they are.
struct Part {
  Int8Conv conv;
  std::optional<Int8Blocks> blocks;
  int64_t channels, height, width, pad_top, pad_left, taps_h, taps_w, stride;
  Part(const Problem& problem, bool image) {
    int8_conv(problem, conv);
    const ConvShape& s = conv.shape;
    channels = s.in_c, height = s.in_h, width = s.in_w, pad_top = s.pad_top, pad_left = s.pad_left;
    taps_h = s.kernel_h, taps_w = s.kernel_w, stride = s.stride_h;
    if (!image) return;
    blocks.emplace(problem);
    channels = blocks->channels, height = blocks->height, width = blocks->width;
    pad_top = blocks->pad_top, pad_left = blocks->pad_left;
    taps_h = blocks->taps_h, taps_w = blocks->taps_w, stride = 1;
  }
  int64_t steps_w() const { return channels == 16 ? ceil_div(taps_w, 2) : taps_w; }
  /// As the kernel takes it, or a little more.
  int64_t shared_bytes(int64_t rows) const {
    const int64_t high = (rows - 1) * stride + taps_h, wide = (tile_columns - 1) * stride + taps_w;
    const int64_t part = high * wide * channels + 256;
    return (blocks ? 1 : 2) * part + taps_h * steps_w() * width_of(conv.shape) * 32 + 256;
  }
  /// [out_c][taps_h][taps_w][channels]
  std::vector<int8_t> weights(const Problem& problem) const {
    return blocks ? blocks->weights(problem) : int8_weights(problem, conv.shape);
  }
};

Reason refuses_results(const Problem& problem, const ConvShape& shape, const Properties& properties) {
  if (properties.capability() < 80) return {Reason::capability, "it", "8.0"};
  if (shape.y_type != DType::u8) return {Reason::element_type, "results", "u8"};
  const int width = width_of(shape);
  if (shape.out_c > 64 || shape.out_c % (width / 4))
    return {Reason::shape, "the output", "at most 64 channels, whole tiles"};
  if (shape.y[3] != 1 || (has_residual(problem) && shape.residual[3] != 1)) return {Reason::not_contiguous, "channels"};
  for (int at = 0; at < 3; ++at)
    if (shape.y[at] % 16 || shape.residual[at] % 16) return {Reason::unaligned, "pixels"};
  if (!problem.outputs[0].aligned || (has_residual(problem) && !problem.inputs[3].aligned))
    return {Reason::unaligned, "operand"};
  return shape.batch * ceil_div(shape.out_h, 4) * ceil_div(shape.out_w, 32) >= int64_t{1} << 31
             ? Reason(Reason::too_large)
             : Reason();
}

Reason refuses_image(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  if (const Reason reason = refuses_int8_blocks(problem, shape)) return reason;
  if (const Reason reason = refuses_results(problem, shape, properties)) return reason;
  if (shape.in_c * shape.stride_h * shape.stride_h > 16) return {Reason::too_many, 16, "channels in a block"};
  return Part(problem, true).shared_bytes(4) > most_shared ? Reason(Reason::no_tile) : Reason();
}

Reason refuses_pixels(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  if (const Reason reason = int8_shape(problem, shape)) return reason;
  if (const Reason reason = refuses_results(problem, shape, properties)) return reason;
  if (shape.x_type != DType::u8 || (shape.in_c != 16 && shape.in_c != 32))
    return {Reason::shape, "the input", "16 or 32 bytes a pixel"};
  if (shape.groups != 1) return Reason::grouped;
  if (shape.dilation_h != 1 || shape.dilation_w != 1) return Reason::dilated;
  if (shape.stride_h != shape.stride_w || shape.stride_h > 2) return {Reason::strides, "equal, 1 or 2"};
  if (shape.kernel_h * shape.kernel_w == 1) return {Reason::too_few, 2, "taps"};
  if (shape.x[3] != 1 || !problem.inputs[0].aligned) return {Reason::not_contiguous, "channels"};
  for (int at = 0; at < 3; ++at)
    if (shape.x[at] % 16) return {Reason::unaligned, "pixels"};
  return Part(problem, false).shared_bytes(4) > most_shared ? Reason(Reason::no_tile) : Reason();
}

/// Two neighbouring pixels of an image as one load.
bool pairs(const Problem& problem, const Int8Blocks& blocks) {
  const ConvShape& s = blocks.conv.shape;
  return blocks.block == 2 && s.x[2] == 1 && s.in_w % 2 == 0 && s.x[0] % 2 == 0 && s.x[1] % 2 == 0 && s.x[3] % 2 == 0 &&
         problem.inputs[0].aligned;
}

template <bool image>
std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const Part part(problem, image);
  const ConvShape& shape = part.conv.shape;
  std::vector<Tactic> list;
  using Forms = std::vector<std::pair<int, int>>;  // rows, threads
  for (const auto& [rows, threads] :
       image ? Forms{{12, 128}, {8, 128}, {10, 128}, {14, 128}, {20, 128}, {16, 256}, {24, 256}, {32, 256}}
               : Forms{{8, 128}, {12, 128}, {4, 128}, {16, 128}, {8, 256}, {16, 256}}) {
    if (part.shared_bytes(rows) > most_shared || (!list.empty() && rows > 2 * shape.out_h)) continue;
    std::vector<std::string> defines = int8_defines(part.conv);
    for (const std::string& word :
         {define("IMAGE", image), define("CB", part.channels), define("STRIDE", part.stride),
          define("TAPS_H", part.taps_h), define("TAPS_W", part.taps_w), define("TH", rows), define("THREADS", threads),
          define("WIDTH", width_of(shape)), define("COUT", shape.out_c)})
      defines.push_back(word);
    if (image)
      for (const std::string& word :
           {define_type("ELEMENT", shape.x_type), define("C", shape.in_c), define("BLOCK", part.blocks->block),
            define("PAIRS", pairs(problem, *part.blocks))})
        defines.push_back(word);
    Source source = byte_source({"quantise.cuh", "int8_window.cu"}, defines);
    list.push_back({std::string(image ? "image " : "window ") + std::to_string(rows) + "x" +
                        std::to_string(tile_columns) + " by " + std::to_string(threads),
                    {std::move(source)},
                    {rows, image, threads}});
  }
  return list;
}

class Int8WindowStep : public ConvStep<Params> {
 public:
  Int8WindowStep(const Problem& problem, Device& device, const Tactic& tactic)
      : ConvStep(device, tactic.sources[0], "int8_window", device.constants(tactic.sources[0], "meta")[0]) {
    const Part part(problem, tactic.numbers[1] != 0);
    const Int8Conv& conv = part.conv;
    const ConvShape& shape = conv.shape;
    const std::vector<int8_t> weights = part.weights(problem);
    const int64_t width = width_of(shape), own = width / 4, taps = part.taps_h * part.taps_w;
    // A step of 32 bytes is two taps of 16, or one of 32.
    const int64_t per_step = 32 / part.channels;
    std::vector<int8_t> packed;
    for (int64_t row = 0; row < part.taps_h; ++row)
      for (int64_t step = 0; step < part.steps_w(); ++step)
        for (int64_t eight = 0; eight < width / 8; ++eight)
          for (int64_t lane = 0; lane < 32; ++lane)
            for (int64_t at = 0; at < 8; ++at) {
              const int64_t n = lane / 4, result = n / 2 * own + 2 * eight + n % 2;
              const int64_t depth = lane % 4 * 4 + at % 4 + at / 4 * 16;
              const int64_t column = step * per_step + depth / part.channels, channel = depth % part.channels;
              const bool real = result < shape.out_c && column < part.taps_w;
              const int64_t tap = result * taps + row * part.taps_w + column;
              packed.push_back(real ? weights[tap * part.channels + channel] : int8_t{0});
            }
    const std::vector<uint32_t> numbers = numbers_of(conv, zero_sums(conv, int8_weights(problem, shape)), width);
    const size_t begin = packed.size();
    packed.resize(begin + numbers.size() * 4);
    std::memcpy(packed.data() + begin, numbers.data(), numbers.size() * 4);
    const Address weights_at = pack(packed.data(), packed.size());
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    params_.w = weights_at, params_.lists = lists_at(weights_at + begin, width);
    params_.in_h = number(shape.in_h), params_.in_w = number(shape.in_w);
    params_.blocks_h = number(part.height), params_.blocks_w = number(part.width);
    params_.out_h = number(shape.out_h), params_.out_w = number(shape.out_w);
    params_.pad_top = number(part.pad_top), params_.pad_left = number(part.pad_left);
    params_.tiles_x = number(ceil_div(shape.out_w, tile_columns));
    params_.tiles_y = number(ceil_div(shape.out_h, tactic.numbers[0]));
    params_.x_zero = conv.x_zero, params_.x_scale = conv.x_scale, params_.x_inverse = 1.f / conv.x_scale;
    params_.finish = finish_of(conv);
    std::copy(std::begin(shape.x), std::end(shape.x), params_.xs);
    for (int at = 0; at < 3; ++at) params_.ys[at] = shape.y[at], params_.rs[at] = shape.residual[at];
    residual_ = has_residual(problem) && conv.has_residual();
    const int shared = device.constants(tactic.sources[0], "meta")[0], threads = tactic.numbers[2];
    const int64_t together = std::min<int64_t>((width_of(shape) == 64 ? 512 : 768) / threads,
                                               (device.properties().shared_bytes + 1024) / (shared + 1024));
    params_.tiles = number(shape.batch * params_.tiles_x * params_.tiles_y);
    // Blocks of pixels go on to other tiles, as their next one is on the way.
    const int64_t blocks = together * device.properties().multiprocessors;
    grid_ = {tactic.numbers[1] ? params_.tiles : std::min<int64_t>(params_.tiles, blocks), 1, 1, threads, shared};
  }
};

const KernelRegistrar image({"tenon:Int8Conv", "image", 5, refuses_image, tactics<true>,
                               make_step<Int8WindowStep>});
const KernelRegistrar pixels({"tenon:Int8Conv", "window", 2, refuses_pixels, tactics<false>,
                              make_step<Int8WindowStep>});

}  // namespace
}  // namespace tenon::cuda::int8_window

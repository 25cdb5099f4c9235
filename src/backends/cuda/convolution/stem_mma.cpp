// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cuda/convolution/stem_mma_params.h"
#include "backends/cuda/convolution/blocks.h"
#include "backends/cuda/convolution/conv_step.h"

namespace tenon::cuda::stem_mma {
namespace {

using Params = StemMmaParams;

constexpr int64_t block_channels = 16, most_registers = 64;
constexpr int tile_columns = 32;

/// Channels of the results, padded to what a quad of lanes divides.
int width_of(const ConvShape& shape) { return shape.out_c <= 16 ? 16 : shape.out_c <= 32 ? 32 : 64; }

Reason refuses(const Problem& problem, const Properties& properties) {
  if (properties.capability() < 80) return {Reason::capability, "it", "8.0"};
  ConvShape shape{};
  if (const Reason reason = refuses_blocks(problem, shape)) return reason;
  if (const Reason reason = refuses_added_zeros(problem)) return reason;
  if (!is_16_bit(shape.y_type)) return {Reason::element_type, "results", "f16 or bf16"};
  if (shape.in_c * shape.stride_h * shape.stride_h > block_channels)
    return {Reason::too_many, block_channels, "channels in a block"};
  const int width = width_of(shape);
  if (shape.out_c > 64 || shape.out_c % (width / 4))
    return {Reason::shape, "the output", "at most 64 channels, whole tiles"};
  const Blocks blocks(problem);
  if (blocks.taps_h * blocks.taps_w * width / 4 > most_registers) return Reason::no_tile;
  if (shape.y[3] != 1) return {Reason::not_contiguous, "channels"};
  for (int at = 0; at < 3; ++at)
    if (shape.y[at] % 8) return {Reason::unaligned, "pixels"};
  if (!problem.outputs[0].aligned) return {Reason::unaligned, "output"};
  return shape.batch * ceil_div(shape.out_h, 4) * ceil_div(shape.out_w, 32) >= int64_t{1} << 31
             ? Reason(Reason::too_large)
             : Reason();
}

/// Two neighbouring pixels as one load.
bool pairs(const Problem& problem, const Blocks& blocks) {
  const ConvShape& s = blocks.shape;
  return blocks.block == 2 && s.x[2] == 1 && s.in_w % 2 == 0 && s.x[0] % 2 == 0 && s.x[1] % 2 == 0 && s.x[3] % 2 == 0 &&
         problem.inputs[0].aligned;
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const Blocks blocks(problem);
  std::vector<Tactic> list;
  for (const auto& [rows, threads] : {std::pair{16, 256}, {28, 256}, {14, 128}, {10, 128}, {20, 128}, {8, 128}}) {
    if (!list.empty() && rows > 2 * blocks.shape.out_h) continue;
    Source source{"stem_mma.cu", epilogue_defines(conv_epilogue(problem)), ""};
    for (const std::string& word :
         {define_type("ELEMENT", blocks.shape.x_type), define("C", blocks.shape.in_c), define("BLOCK", blocks.block),
          define("TAPS_H", blocks.taps_h), define("TAPS_W", blocks.taps_w), define("TH", rows),
          define("THREADS", threads), define("WIDTH", width_of(blocks.shape)), define("COUT", blocks.shape.out_c),
          define("PAIRS", pairs(problem, blocks))})
      source.defines.push_back(word);
    list.push_back(
        {"image " + std::to_string(rows) + "x" + std::to_string(tile_columns) + " by " + std::to_string(threads),
         {source},
         {rows, threads}});
  }
  return list;
}

class ImageStep : public ConvStep<Params> {
 public:
  ImageStep(const Problem& problem, Device& device, const Tactic& tactic)
      : ConvStep(device, tactic.sources[0], "stem_mma") {
    Blocks blocks(problem);
    blocks.make_problem(problem);
    const ConvShape& shape = blocks.shape;
    const float* weights = blocks.problem.inputs[1].constant.data<float>();
    const int64_t taps = blocks.taps_h * blocks.taps_w, width = width_of(shape), own = width / 4;
    std::vector<uint16_t> packed;
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t eight = 0; eight < width / 8; ++eight)
        for (int64_t lane = 0; lane < 32; ++lane)
          for (int64_t at = 0; at < 4; ++at) {
            const int64_t n = lane / 4, result = n / 2 * own + 2 * eight + n % 2;
            const int64_t channel = lane % 4 * 2 + at % 2 + at / 2 * 8;
            const bool real = result < shape.out_c;
            const float weight = real ? weights[(result * block_channels + channel) * taps + tap] : 0;
            packed.push_back(bits16_of(weight, shape.y_type));
          }
    const std::vector<float> bias = conv_bias(problem, shape);
    const size_t weight_bytes = packed.size() * 2;
    std::vector<std::byte> bytes(weight_bytes + bias.size() * sizeof(float));
    std::memcpy(bytes.data(), packed.data(), weight_bytes);
    std::memcpy(bytes.data() + weight_bytes, bias.data(), bias.size() * sizeof(float));
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    const ops::Epilogue epilogue = conv_epilogue(problem);
    params_.w = pack(bytes.data(), bytes.size()), params_.bias = params_.w + weight_bytes;
    params_.in_h = number(shape.in_h), params_.in_w = number(shape.in_w);
    params_.blocks_h = number(blocks.height), params_.blocks_w = number(blocks.width);
    params_.out_h = number(shape.out_h), params_.out_w = number(shape.out_w);
    params_.pad_top = number(blocks.pad_top), params_.pad_left = number(blocks.pad_left);
    params_.tiles_x = number(ceil_div(shape.out_w, tile_columns));
    params_.tiles_y = number(ceil_div(shape.out_h, tactic.numbers[0]));
    params_.alpha = epilogue.alpha, params_.beta = epilogue.beta;
    std::copy(std::begin(shape.x), std::end(shape.x), params_.xs);
    for (int at = 0; at < 3; ++at) params_.ys[at] = shape.y[at];
    grid_ = {shape.batch * params_.tiles_x * params_.tiles_y, 1, 1, tactic.numbers[1], 0};
  }
};

const KernelRegistrar registered({"Conv", "image", 5, refuses, tactics, make_step<ImageStep>});

}  // namespace
}  // namespace tenon::cuda::stem_mma

#include <algorithm>
#include <cstring>

#include "backends/cuda/byte_blocks.h"

namespace tenon::cuda {
namespace {

/// As kernels/byte_picture.cu has it.
struct Params {
  Address x, w, bias, scale, zero_sums, y;
  int64_t xs[4], ys[3];
  int in_h, in_w, blocks_h, blocks_w, out_h, out_w, pad_top, pad_left, tiles_x, tiles_y, x_zero;
  float x_scale;
  Finish finish;
};

constexpr int64_t block_channels = 16, most_shared = 48 << 10;
constexpr int tile_columns = 32;

/// Channels of the results, padded to what a quad of lanes divides.
int width_of(const ConvShape& shape) { return shape.out_c <= 16 ? 16 : shape.out_c <= 32 ? 32 : 64; }

int64_t shared_bytes(const ByteBlocks& blocks, int64_t rows) {
  const int64_t part = (rows + blocks.taps_h - 1) * (tile_columns + blocks.taps_w - 1) + 1;
  return part * 16 + blocks.taps_h * ceil_div(blocks.taps_w, 2) * width_of(blocks.conv.shape) * 32 + 256;
}

const char* refuses(const Problem& problem, const Properties& properties) {
  if (properties.capability() < 80) return "it needs compute capability 8.0";
  ConvShape shape{};
  if (const char* reason = refuses_byte_blocks(problem, shape)) return reason;
  if (shape.y_type != DType::u8) return "only u8 results";
  if (shape.in_c * shape.stride_h * shape.stride_h > block_channels) return "more than 16 channels in a block";
  const int width = width_of(shape);
  if (shape.out_c > 64 || shape.out_c % (width / 4)) return "too many results";
  if (shared_bytes(ByteBlocks(problem), 4) > most_shared) return "too many taps";
  if (shape.y[3] != 1) return "channels are not contiguous";
  for (int at = 0; at < 3; ++at)
    if (shape.y[at] % 16) return "pixels are not aligned";
  if (!problem.outputs[0].aligned) return "the output is not aligned";
  return shape.batch * ceil_div(shape.out_h, 4) * ceil_div(shape.out_w, 32) >= int64_t{1} << 31 ? "too large" : nullptr;
}

/// Two neighbouring pixels as one load.
bool pairs(const Problem& problem, const ByteBlocks& blocks) {
  const ConvShape& s = blocks.conv.shape;
  return blocks.block == 2 && s.x[2] == 1 && s.in_w % 2 == 0 && s.x[0] % 2 == 0 && s.x[1] % 2 == 0 && s.x[3] % 2 == 0 &&
         problem.inputs[0].aligned;
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const ByteBlocks blocks(problem);
  const ConvShape& shape = blocks.conv.shape;
  std::vector<Tactic> list;
  for (const int rows : {16, 32, 24, 8, 4}) {
    if (shared_bytes(blocks, rows) > most_shared || (!list.empty() && rows > 2 * shape.out_h)) continue;
    std::vector<std::string> defines = byte_defines(blocks.conv);
    for (const std::string& word :
         {define_type("ELEMENT", shape.x_type), define("C", shape.in_c), define("BLOCK", blocks.block),
          define("TAPS_H", blocks.taps_h), define("TAPS_W", blocks.taps_w), define("TH", rows),
          define("WIDTH", width_of(shape)), define("COUT", shape.out_c), define("PAIRS", pairs(problem, blocks))})
      defines.push_back(word);
    list.push_back({"picture " + std::to_string(rows) + "x" + std::to_string(tile_columns),
                    {byte_source("byte_picture.cu", defines)},
                    {rows}});
  }
  return list;
}

class BytePictureStep : public Step {
 public:
  BytePictureStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "byte_picture")) {
    ByteBlocks blocks(problem);
    blocks.make_problem(problem);
    const ByteConv& conv = blocks.conv;
    const ConvShape& shape = conv.shape;
    const int8_t* weights = blocks.problem.inputs[1].constant.data<int8_t>();
    const int64_t taps = blocks.taps_h * blocks.taps_w, width = width_of(shape), own = width / 4;
    std::vector<int8_t> packed;
    for (int64_t row = 0; row < blocks.taps_h; ++row)
      for (int64_t pair = 0; pair < ceil_div(blocks.taps_w, 2); ++pair)
        for (int64_t eight = 0; eight < width / 8; ++eight)
          for (int64_t lane = 0; lane < 32; ++lane)
            for (int64_t at = 0; at < 8; ++at) {
              const int64_t n = lane / 4, result = n / 2 * own + 2 * eight + n % 2;
              const int64_t depth = lane % 4 * 4 + at % 4 + at / 4 * 16;
              const int64_t column = pair * 2 + depth / 16, channel = depth % 16;
              const bool real = result < shape.out_c && column < blocks.taps_w;
              const int64_t tap = row * blocks.taps_w + column;
              packed.push_back(real ? weights[(result * block_channels + channel) * taps + tap] : int8_t{0});
            }
    const std::vector<int32_t> zeros = zero_sums(conv, byte_weights(problem, shape));
    const size_t begin = packed.size(), list = static_cast<size_t>(shape.out_c) * 4;
    packed.resize(begin + 3 * list);
    std::memcpy(packed.data() + begin, conv.bias.data(), list);
    std::memcpy(packed.data() + begin + list, conv.scale.data(), list);
    std::memcpy(packed.data() + begin + 2 * list, zeros.data(), list);
    packed_ = Buffer(packed.size());
    packed_.upload(packed.data(), packed.size());
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    params_.w = packed_.address(), params_.bias = packed_.address() + begin;
    params_.scale = params_.bias + list, params_.zero_sums = params_.bias + 2 * list;
    params_.in_h = number(shape.in_h), params_.in_w = number(shape.in_w);
    params_.blocks_h = number(blocks.height), params_.blocks_w = number(blocks.width);
    params_.out_h = number(shape.out_h), params_.out_w = number(shape.out_w);
    params_.pad_top = number(blocks.pad_top), params_.pad_left = number(blocks.pad_left);
    params_.tiles_x = number(ceil_div(shape.out_w, tile_columns));
    params_.tiles_y = number(ceil_div(shape.out_h, tactic.numbers[0]));
    params_.x_zero = conv.x_zero, params_.x_scale = conv.x_scale, params_.finish = finish_of(conv);
    std::copy(std::begin(shape.x), std::end(shape.x), params_.xs);
    for (int at = 0; at < 3; ++at) params_.ys[at] = shape.y[at];
    grid_ = {shape.batch * params_.tiles_x * params_.tiles_y, 1, 1, 256, 0};
  }
  size_t packed_bytes() const override { return packed_.bytes(); }
  bool reads(size_t input) const override { return input == 0; }
  void enqueue(const Launch& at) override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.outputs[0];
    launch(device_, function_, grid_, at.stream, params);
  }

 private:
  Device& device_;
  Function function_;
  Buffer packed_;
  Params params_{};
  Grid grid_;
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return std::make_unique<BytePictureStep>(problem, device, tactic);
}

const KernelRegistrar registered({"Int8Conv", "picture", 5, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda

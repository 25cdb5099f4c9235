// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cuda/convolution/conv_mma_params.h"
#include "backends/cuda/convolution/int8_conv.h"

namespace tenon::cuda::conv_mma {
namespace {

using Params = ConvMmaParams;

constexpr int row_bytes = 128;

struct Tile {
  int m, n, warp_m, warp_n, stages;
  int threads() const { return m / warp_m * (n / warp_n) * 32; }
  int shared_bytes() const { return stages * (m + n) * row_bytes; }
};

constexpr Tile tiles[] = {{128, 128, 64, 32, 3}, {128, 64, 32, 32, 4}, {64, 128, 32, 32, 4},
                          {64, 64, 32, 32, 4},   {128, 32, 32, 32, 4}, {64, 32, 16, 32, 4},
                          {32, 64, 16, 32, 4},   {32, 32, 16, 32, 4},  {16, 64, 16, 32, 4}};

int element_bytes(const ConvShape& shape) { return static_cast<int>(size_of(shape.x_type)); }
/// Channels of a group, padded to whole 16-byte chunks.
int64_t padded_channels(const ConvShape& shape) {
  const int64_t chunk = 16 / element_bytes(shape);
  return ceil_div(shape.channels_in(), chunk) * chunk;
}
int64_t padded_depth(const ConvShape& shape) {
  return int64_t{shape.kernel_h} * shape.kernel_w * padded_channels(shape);
}
int64_t steps_of(const ConvShape& shape) { return ceil_div(padded_depth(shape) * element_bytes(shape), row_bytes); }

/// Small groups of floats side by side, up to 32 channels, as one whose weights are zero between them: what is
/// multiplied for nothing would be padding else.
ConvShape joined(ConvShape shape) {
  constexpr int64_t most = 32;
  const int64_t least = shape.channels_in();
  while (least > 1 && shape.groups % 2 == 0) {
    if (2 * std::max(shape.channels_in(), shape.channels_out()) > most) break;
    shape.groups /= 2;
  }
  return shape;
}
Reason mma_shape(const Problem& problem, ConvShape& shape) {
  const Reason reason = any_conv_shape(problem, shape);
  if (!reason && !is_int8(problem) && !refuses_added_zeros(problem)) shape = joined(shape);
  return reason;
}
/// Weights of a shape that was joined, as conv_weights() has them.
std::vector<float> joined_weights(const Problem& problem, const ConvShape& shape) {
  ConvShape apart = shape;
  any_conv_shape(problem, apart);
  const std::vector<float> weights = conv_weights(problem, apart);
  if (apart.groups == shape.groups) return weights;
  const int64_t taps = int64_t{shape.kernel_h} * shape.kernel_w, own = apart.channels_in(), all = shape.channels_in();
  std::vector<float> wide(static_cast<size_t>(shape.out_c * taps * all), 0.f);
  for (int64_t n = 0; n < shape.out_c; ++n) {
    const int64_t begin = n / apart.channels_out() * own % all;
    for (int64_t tap = 0; tap < taps; ++tap)
      std::copy_n(weights.begin() + (n * taps + tap) * own, own, wide.begin() + (n * taps + tap) * all + begin);
  }
  return wide;
}

/// The longest copy that all channels of a pixel are whole numbers of: 16, 8 or 4 bytes; of halves 2, else 0 where
/// there is none.
int copy_bytes(const Problem& problem, const ConvShape& shape) {
  for (const int64_t bytes : {16, 8, 4}) {
    bool fits = (bytes == 4 || problem.inputs[0].aligned) && shape.channels_in() * element_bytes(shape) % bytes == 0;
    for (int at = 0; at < 3; ++at) fits = fits && shape.x[at] * element_bytes(shape) % bytes == 0;
    if (fits) return static_cast<int>(bytes);
  }
  return is_16_bit(shape.x_type) ? 2 : 0;
}

Reason refuses(const Problem& problem, const Properties& properties) {
  if (properties.capability() < 80) return {Reason::capability, "it", "8.0"};
  ConvShape shape{};
  if (const Reason reason = mma_shape(problem, shape)) return reason;
  if (shape.x_type == DType::f32 && is_int8(problem)) return {Reason::element_type, "the input", "bytes"};
  if (shape.x_type == DType::f32 && problem.strict && !problem.tf32) return {Reason::strict, "f32"};
  if (copy_bytes(problem, shape) == 0) return {Reason::not_multiple, "channels", 4};
  const int least = is_int8(problem) ? 4 : 2;
  if (shape.channels_in() < least) return {Reason::too_few, least, "channels"};
  if (shape.x[3] != 1 || shape.y[3] != 1 || (problem.inputs.size() > 3 && problem.inputs[3] && shape.residual[3] != 1))
    return {Reason::not_contiguous, "channels"};
  return problem.inputs[0].aligned || !is_int8(problem) ? Reason() : Reason(Reason::unaligned, "input");
}

/// Stores and residual loads of eight channels at once.
bool vectors(const Problem& problem, const ConvShape& shape) {
  const auto fits = [](const Operand& operand, const int64_t(&strides)[4]) {
    const int64_t each = operand.dtype == DType::f32 ? 4 : 8;
    bool good = operand.aligned;
    for (int at = 0; at < 3; ++at) good = good && strides[at] % each == 0;
    return good;
  };
  return shape.channels_out() % 8 == 0 && fits(problem.outputs[0], shape.y) &&
         (problem.inputs.size() < 4 || !problem.inputs[3] || fits(problem.inputs[3], shape.residual));
}

int64_t blocks_of(const ConvShape& shape, const Tile& tile) {
  return ceil_div(shape.pixels(), tile.m) * ceil_div(shape.channels_out(), tile.n) * shape.groups;
}

/// Whether f32 is divided into two numbers of tf32.
bool is_divided(const Problem& problem, const ConvShape& shape) { return shape.x_type == DType::f32 && !problem.tf32; }

/// The macro DT of conv_mma.cu.
int type_of(const Problem& problem, const ConvShape& shape) {
  return is_int8(problem) ? 3 : is_16_bit(shape.x_type) ? 1 : is_divided(problem, shape) ? 4 : 2;
}

Tactic tactic_of(const Problem& problem, const ConvShape& shape, const Tile& tile, int splits) {
  Source source{"conv_mma.cu", {}, ""};
  bool fill = false;
  if (is_int8(problem)) {
    Int8Conv conv;
    int8_conv(problem, conv);
    source = byte_source({"conv_mma.cu"}, int8_defines(conv));
    fill = conv.has_borders();
  } else {
    source.defines = epilogue_defines(conv_epilogue(problem));
  }
  const std::string result = is_int8(problem) ? define_bytes("TY", shape.y_type) : define_type("TY", shape.y_type);
  for (const std::string& word :
       {define("DT", type_of(problem, shape)), result, define("COPY", copy_bytes(problem, shape)), define("FILL", fill),
        define("VECTOR", vectors(problem, shape)), define("BM", tile.m), define("BN", tile.n),
        define("WM", tile.warp_m), define("WN", tile.warp_n), define("STAGES", tile.stages),
        define("POINT", shape.is_point()), define("SPLIT", splits > 1)})
    source.defines.push_back(word);
  const std::string name = (is_divided(problem, shape) ? "3xtf32 " : "mma ") + std::to_string(tile.m) + "x" +
                           std::to_string(tile.n) + (splits > 1 ? " split " + std::to_string(splits) : "");
  return {name, {source}, {static_cast<int>(&tile - tiles), splits}};
}

/// Cycles of a multiprocessor, about; estimates that order candidates, of which the first are timed: what a block takes
/// beside its products, a step of 128 bytes of depth, in it a sum and a row or column that is copied, and adding up the
/// parts of a split depth.
constexpr double block_cycles = 2000, step_cycles = 60, cycles_of_sum = 1 / 16.0, cycles_of_row = 2,
                 split_cycles = 1500;
constexpr double shared_for_tiles = 200e3;  // bytes of a multiprocessor
constexpr double most_resident = 8;         // blocks of a multiprocessor that hide each other's waiting

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  mma_shape(problem, shape);
  struct Guess {
    double cost;
    const Tile* tile;
    int splits;
  };
  std::vector<Guess> guesses;
  const int64_t steps = steps_of(shape);
  for (const Tile& tile : tiles) {
    if (tile.shared_bytes() > properties.shared_bytes) continue;
    for (int splits : {1, 2, 4, 8, 16}) {
      const int64_t blocks = blocks_of(shape, tile) * splits;
      if (splits > 1 && (steps < 2 * splits || blocks > 2 * properties.multiprocessors)) break;
      // Waves of blocks, each a fixed part and its products; a larger tile does more products for a byte.
      const double part =
          block_cycles + static_cast<double>(ceil_div(steps, splits)) *
                             (step_cycles + tile.m * tile.n * cycles_of_sum + (tile.m + tile.n) * cycles_of_row);
      const double resident = std::clamp(shared_for_tiles / tile.shared_bytes(), 1.0, most_resident);
      const double waves = std::max(1.0, static_cast<double>(blocks) / (properties.multiprocessors * resident));
      guesses.push_back(
          {waves * part *
                   (waves > 1 ? resident : std::max(1.0, static_cast<double>(blocks) / properties.multiprocessors)) +
               (splits > 1 ? split_cycles : 0),
           &tile, splits});
    }
  }
  std::stable_sort(guesses.begin(), guesses.end(), [](const Guess& a, const Guess& b) { return a.cost < b.cost; });
  constexpr size_t most = 10;
  std::vector<Tactic> list;
  for (const Guess& guess : guesses)
    if (list.size() < most) list.push_back(tactic_of(problem, shape, *guess.tile, guess.splits));
  return list;
}

/// f32 rounded to 10 bits of mantissa, to nearest with ties away.
float tf32_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & ~0x1fffu;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

class MmaStep : public Step {
 public:
  MmaStep(const Problem& problem, Device& device, const Tactic& tactic) : device_(device) {
    ConvShape shape{};
    mma_shape(problem, shape);
    const Tile& tile = tiles[tactic.numbers[0]];
    const int splits = tactic.numbers[1];
    function_ = device.function(tactic.sources[0], "conv_mma", tile.shared_bytes());
    const ops::Epilogue epilogue = conv_epilogue(problem);
    if (is_int8(problem)) {
      pack_bytes(problem, shape, tile);
    } else {
      pack(problem, shape, tile);
      params_.finish.alpha = epilogue.alpha, params_.finish.beta = epilogue.beta;
    }
    residual_ = epilogue.residual != ops::Residual::none;
    const auto size = [](int64_t value) { return static_cast<int>(value); };
    const int64_t tiles_n = ceil_div(shape.channels_out(), tile.n);
    params_.in_h = size(shape.in_h), params_.in_w = size(shape.in_w);
    params_.out_h = size(shape.out_h), params_.out_w = size(shape.out_w);
    params_.c_in = size(padded_channels(shape)), params_.c_real = size(shape.channels_in());
    params_.c_out = size(shape.channels_out());
    params_.kernel_w = shape.kernel_w;
    params_.stride_h = shape.stride_h, params_.stride_w = shape.stride_w;
    params_.dilation_h = shape.dilation_h, params_.dilation_w = shape.dilation_w;
    params_.pad_top = shape.pad_top, params_.pad_left = shape.pad_left;
    params_.pixels = size(shape.pixels());
    params_.chunks = size(padded_depth(shape) * element_bytes(shape) / 16);
    params_.steps = size(steps_of(shape));
    params_.tiles_n = size(tiles_n), params_.groups = shape.groups, params_.splits = splits;
    for (int at = 0; at < 3; ++at)
      params_.xs[at] = shape.x[at], params_.ys[at] = shape.y[at], params_.rs[at] = shape.residual[at];
    const int64_t blocks = blocks_of(shape, tile);
    grid_ = {blocks, splits, 1, tile.threads(), tile.shared_bytes()};
    if (splits > 1) {
      workspace_ = static_cast<size_t>(blocks * splits) * static_cast<size_t>(tile.m * tile.n) * sizeof(float);
      counters_ = Buffer::kept(static_cast<size_t>(blocks) * 4);
      counters_.clear();
      params_.counters = counters_.address();
    }
  }
  size_t workspace_bytes() const override { return workspace_; }
  bool reads(size_t input) const override { return input == 0 || input == 3; }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.outputs[0], params.partial = at.workspace;
    if (residual_) params.residual = at.inputs[3];
    launch(device_, function_, grid_, at, params);
  }

 private:
  /// Rows of weights as the kernel's head describes them; `put(to, weight)` stores one. `more` bytes follow at the
  /// returned place.
  template <class W, class Put>
  size_t pack_rows(const std::vector<W>& weights, const ConvShape& shape, const Tile& tile, size_t more,
                   std::vector<std::byte>& packed, const Put& put) {
    const int64_t out = shape.channels_out(), depth = shape.depth(), bytes = element_bytes(shape);
    const int64_t c_in = shape.channels_in(), c_padded = padded_channels(shape);
    const int64_t padded_out = ceil_div(out, tile.n) * tile.n, row = steps_of(shape) * row_bytes;
    const int64_t rows = padded_out * shape.groups;
    packed.resize(static_cast<size_t>(rows * row) + more);
    for (int64_t position = 0; position < rows; ++position) {
      const int64_t n = position % padded_out % 32, base = position % padded_out - n;
      const int64_t local = base + n % 8 / 2 * 8 + n / 8 * 2 + n % 2;
      if (local >= out) continue;
      const W* from = weights.data() + (position / padded_out * out + local) * depth;
      for (int64_t k = 0; k < depth; ++k)
        put(packed.data() + position * row + (k / c_in * c_padded + k % c_in) * bytes, from[k]);
    }
    return static_cast<size_t>(rows * row);
  }
  void pack(const Problem& problem, const ConvShape& shape, const Tile& tile) {
    const std::vector<float> bias = conv_bias(problem, shape);
    std::vector<std::byte> packed;
    const bool narrow = is_16_bit(shape.x_type), divided = is_divided(problem, shape);
    const auto weights = joined_weights(problem, shape);
    const size_t bias_at =
        pack_rows(weights, shape, tile, bias.size() * 4, packed, [&](std::byte* to, float weight) {
          if (narrow) *reinterpret_cast<uint16_t*>(to) = bits16_of(weight, shape.x_type);
          else *reinterpret_cast<float*>(to) = divided ? weight : tf32_of(weight);
        });
    std::memcpy(packed.data() + bias_at, bias.data(), bias.size() * 4);
    packed_ = Buffer::kept(packed.size());
    packed_.upload(packed.data(), packed.size());
    params_.w = packed_.address(), params_.lists.bias = packed_.address() + bias_at;
  }
  void pack_bytes(const Problem& problem, const ConvShape& shape, const Tile& tile) {
    Int8Conv conv;
    int8_conv(problem, conv);
    const std::vector<int8_t> weights = int8_weights(problem, shape);
    const std::vector<uint32_t> numbers = numbers_of(conv, zero_sums(conv, weights), shape.out_c);
    std::vector<std::byte> packed;
    const size_t begin = pack_rows(weights, shape, tile, numbers.size() * 4, packed,
                                   [](std::byte* to, int8_t weight) { *reinterpret_cast<int8_t*>(to) = weight; });
    std::memcpy(packed.data() + begin, numbers.data(), numbers.size() * 4);
    packed_ = Buffer::kept(packed.size());
    packed_.upload(packed.data(), packed.size());
    params_.w = packed_.address(), params_.lists = lists_at(packed_.address() + begin, shape.out_c);
    params_.fill = static_cast<uint32_t>(conv.x_zero) * 0x01010101u;
    params_.finish = finish_of(conv);
  }

  Device& device_;
  Function function_;
  Buffer packed_, counters_;
  Params params_{};
  Grid grid_;
  size_t workspace_ = 0;
  bool residual_;
};

const KernelRegistrar registered({"Conv", "Gemm", "MatMul", "tenon:Int8Conv", "tenon:Float8Conv"},
                                 {"", "mma", 2, refuses, tactics, make_step<MmaStep>});

}  // namespace
}  // namespace tenon::cuda::conv_mma

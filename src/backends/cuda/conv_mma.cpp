#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cuda/convolution.h"

namespace tenon::cuda {
namespace {

/// As kernels/conv_mma.cu has it.
struct Params {
  Address x, w, bias, residual, y, partial, counters;
  int64_t xs[3], ys[3], rs[3];
  int in_h, in_w, out_h, out_w, c_in, c_out, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int pixels, chunks, steps, tiles_n, groups, splits;
  float alpha, beta;
};

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
int64_t steps_of(const ConvShape& shape) { return ceil_div(shape.depth() * element_bytes(shape), row_bytes); }

const char* refuses(const Problem& problem, const Properties& properties) {
  if (properties.capability() < 80) return "it needs compute capability 8.0";
  ConvShape shape{};
  if (const char* reason = conv_shape(problem, shape)) return reason;
  if (shape.x_type == DType::f32 && !problem.tf32) return "f32 is computed in f32";
  const int chunk = 16 / element_bytes(shape);
  if (shape.channels_in() % chunk) return "channels are no whole 16-byte chunks";
  if (shape.x[3] != 1 || shape.y[3] != 1 || (problem.inputs.size() > 3 && problem.inputs[3] && shape.residual[3] != 1))
    return "channels are not contiguous";
  for (int at = 0; at < 3; ++at)
    if (shape.x[at] % chunk) return "pixels are not aligned";
  return problem.inputs[0].aligned ? nullptr : "the input is not aligned";
}

/// Stores and residual loads of eight channels at once.
bool vectors(const Problem& problem, const ConvShape& shape) {
  const int64_t chunk = 16 / static_cast<int64_t>(size_of(shape.y_type));
  bool fits = shape.channels_out() % 8 == 0 && problem.outputs[0].aligned;
  for (int at = 0; at < 3; ++at) fits = fits && shape.y[at] % chunk == 0 && shape.residual[at] % chunk == 0;
  return fits && (problem.inputs.size() < 4 || !problem.inputs[3] || problem.inputs[3].aligned);
}

bool is_point(const ConvShape& shape) {
  return shape.kernel_h * shape.kernel_w == 1 && shape.pad_top == 0 && shape.pad_left == 0;
}

int64_t blocks_of(const ConvShape& shape, const Tile& tile) {
  return ceil_div(shape.pixels(), tile.m) * ceil_div(shape.channels_out(), tile.n) * shape.groups;
}

Tactic tactic_of(const Problem& problem, const ConvShape& shape, const Tile& tile, int splits) {
  Source source{"conv_mma.cu", epilogue_defines(conv_epilogue(problem)), ""};
  for (const std::string& word : {define("DT", shape.x_type == DType::f16 ? 1 : 2), define_type("TY", shape.y_type),
                                  define("VECTOR", vectors(problem, shape)), define("BM", tile.m), define("BN", tile.n),
                                  define("WM", tile.warp_m), define("WN", tile.warp_n), define("STAGES", tile.stages),
                                  define("POINT", is_point(shape)), define("SPLIT", splits > 1)})
    source.defines.push_back(word);
  const std::string name = "mma " + std::to_string(tile.m) + "x" + std::to_string(tile.n) +
                           (splits > 1 ? " split " + std::to_string(splits) : "");
  return {name, {source}, {static_cast<int>(&tile - tiles), splits}};
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  conv_shape(problem, shape);
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
          2000 + static_cast<double>(ceil_div(steps, splits)) * (60 + tile.m * tile.n / 16.0 + 2.0 * (tile.m + tile.n));
      const double resident = std::max(1.0, std::min(8.0, 200e3 / tile.shared_bytes()));
      const double waves = std::max(1.0, static_cast<double>(blocks) / (properties.multiprocessors * resident));
      guesses.push_back(
          {waves * part *
                   (waves > 1 ? resident : std::max(1.0, static_cast<double>(blocks) / properties.multiprocessors)) +
               (splits > 1 ? 1500 : 0),
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
    conv_shape(problem, shape);
    const Tile& tile = tiles[tactic.numbers[0]];
    const int splits = tactic.numbers[1];
    function_ = device.function(tactic.sources[0], "conv_mma", tile.shared_bytes());
    pack(problem, shape, tile);
    const ops::Epilogue epilogue = conv_epilogue(problem);
    residual_ = epilogue.residual != ops::Residual::none;
    const auto size = [](int64_t value) { return static_cast<int>(value); };
    const int64_t tiles_n = ceil_div(shape.channels_out(), tile.n);
    params_.in_h = size(shape.in_h), params_.in_w = size(shape.in_w);
    params_.out_h = size(shape.out_h), params_.out_w = size(shape.out_w);
    params_.c_in = size(shape.channels_in()), params_.c_out = size(shape.channels_out());
    params_.kernel_w = shape.kernel_w;
    params_.stride_h = shape.stride_h, params_.stride_w = shape.stride_w;
    params_.dilation_h = shape.dilation_h, params_.dilation_w = shape.dilation_w;
    params_.pad_top = shape.pad_top, params_.pad_left = shape.pad_left;
    params_.pixels = size(shape.pixels());
    params_.chunks = size(shape.depth() * element_bytes(shape) / 16);
    params_.steps = size(steps_of(shape));
    params_.tiles_n = size(tiles_n), params_.groups = shape.groups, params_.splits = splits;
    params_.alpha = epilogue.alpha, params_.beta = epilogue.beta;
    for (int at = 0; at < 3; ++at)
      params_.xs[at] = shape.x[at], params_.ys[at] = shape.y[at], params_.rs[at] = shape.residual[at];
    const int64_t blocks = blocks_of(shape, tile);
    grid_ = {blocks, splits, 1, tile.threads(), tile.shared_bytes()};
    if (splits > 1) {
      workspace_ = static_cast<size_t>(blocks * splits) * static_cast<size_t>(tile.m * tile.n) * sizeof(float);
      counters_ = Buffer(static_cast<size_t>(blocks) * 4);
      check(driver().MemsetD8(counters_.address(), 0, counters_.bytes()), "cuMemsetD8");
      params_.counters = counters_.address();
    }
  }
  size_t workspace_bytes() const override { return workspace_; }
  size_t packed_bytes() const override { return packed_.bytes() + counters_.bytes(); }
  bool reads(size_t input) const override { return input == 0 || input == 3; }
  void enqueue(const Launch& at) override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.outputs[0], params.partial = at.workspace;
    if (residual_) params.residual = at.inputs[3];
    launch(device_, function_, grid_, at.stream, params);
  }

 private:
  /// The layout that the kernel's head describes, then the bias.
  void pack(const Problem& problem, const ConvShape& shape, const Tile& tile) {
    const std::vector<float> weights = conv_weights(problem, shape), bias = conv_bias(problem, shape);
    const int64_t out = shape.channels_out(), depth = shape.depth(), bytes = element_bytes(shape);
    const int64_t padded_out = ceil_div(out, tile.n) * tile.n, padded_depth = steps_of(shape) * row_bytes / bytes;
    const int64_t rows = padded_out * shape.groups;
    std::vector<std::byte> packed(static_cast<size_t>(rows * padded_depth * bytes + shape.out_c * 4));
    for (int64_t position = 0; position < rows; ++position) {
      const int64_t n = position % padded_out % 32, base = position % padded_out - n;
      const int64_t local = base + n % 8 / 2 * 8 + n / 8 * 2 + n % 2;
      if (local >= out) continue;
      const float* from = weights.data() + (position / padded_out * out + local) * depth;
      std::byte* to = packed.data() + position * padded_depth * bytes;
      for (int64_t k = 0; k < depth; ++k) {
        if (bytes == 2) reinterpret_cast<uint16_t*>(to)[k] = f16_of(from[k]);
        else reinterpret_cast<float*>(to)[k] = tf32_of(from[k]);
      }
    }
    const size_t bias_at = static_cast<size_t>(rows * padded_depth * bytes);
    std::memcpy(packed.data() + bias_at, bias.data(), bias.size() * 4);
    packed_ = Buffer(packed.size());
    packed_.upload(packed.data(), packed.size());
    params_.w = packed_.address(), params_.bias = packed_.address() + bias_at;
  }

  Device& device_;
  Function function_;
  Buffer packed_, counters_;
  Params params_{};
  Grid grid_;
  size_t workspace_ = 0;
  bool residual_;
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return std::make_unique<MmaStep>(problem, device, tactic);
}

const KernelRegistrar conv({"Conv", "mma", 2, refuses, tactics, make});
const KernelRegistrar gemm({"Gemm", "mma", 2, refuses, tactics, make});
const KernelRegistrar matmul({"MatMul", "mma", 2, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda

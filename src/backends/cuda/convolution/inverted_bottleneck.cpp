// SPDX-License-Identifier: Apache-2.0
#include "ops/inverted_bottleneck.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/convolution/inverted_bottleneck_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "ops/half.h"

namespace tenon::cuda::inverted_bottleneck {
namespace {

using Params = InvertedBottleneckParams;

constexpr float largest_f16 = 65504;

/// The three convolutions as problems of their own; one that is absent is never looked at.
struct Block {
  ops::Bottleneck nodes;
  Problem parts[3];
  ConvShape shapes[3]{};

  explicit Block(const Problem& problem) : nodes(ops::bottleneck_of(*problem.node)) {
    const Operand &x = problem.inputs[0], &y = problem.outputs[0];
    const int64_t hidden = problem.inputs[ops::bottleneck_parts[1].weights].dims[0];
    const auto between = [&](const Operand& like) {
      Operand operand{x.dtype, like.dims, {}, {}, true};
      operand.dims[3] = hidden;
      operand.strides = backends::dense_strides(operand.dims);
      return operand;
    };
    const Operand steps[] = {x, nodes.has_expansion ? between(x) : x, nodes.has_projection ? between(y) : y, y};
    const auto input = [&](size_t at) { return at < problem.inputs.size() ? problem.inputs[at] : Operand(); };
    for (size_t at = 0; at < 3; ++at) {
      const size_t weights = ops::bottleneck_parts[at].weights;
      parts[at] = problem;
      parts[at].node = &nodes.parts[at];
      parts[at].inputs = {steps[at], input(weights), input(weights + 1)};
      parts[at].outputs = {steps[at + 1]};
    }
    if (const Operand residual = input(ops::bottleneck_residual)) parts[2].inputs.push_back(residual);
  }
  Block(const Block&) = delete;

  const ConvShape& expand() const { return shapes[0]; }
  const ConvShape& depthwise() const { return shapes[1]; }
  const ConvShape& project() const { return shapes[2]; }
  /// Of the first and the last that are there.
  const ConvShape& begin() const { return shapes[nodes.first()]; }
  const ConvShape& end() const { return shapes[nodes.last()]; }
  int64_t hidden() const { return depthwise().out_c; }

  Reason refuses() {
    if (!nodes.has_expansion && !nodes.has_projection) return {Reason::too_few, 2, "convolutions"};
    for (size_t at = nodes.first(); at <= nodes.last(); ++at)
      if (const Reason reason = conv_shape(parts[at], shapes[at])) return reason;
    if ((nodes.has_expansion && !is_pointwise(expand())) || (nodes.has_projection && !is_pointwise(project())))
      return Reason::pointwise;
    const ConvShape& d = depthwise();
    if (d.groups != d.in_c || d.out_c != d.in_c) return Reason::not_depthwise;
    if (d.kernel_h != d.kernel_w || (d.kernel_h != 3 && d.kernel_h != 5) || d.dilation_h != 1 || d.dilation_w != 1)
      return {Reason::window, "3x3 or 5x5"};
    if (d.stride_h != d.stride_w || d.stride_h > 2) return {Reason::strides, "1 or 2"};
    if (nodes.has_projection && project().out_c > ops::most_projected)
      return {Reason::too_many, ops::most_projected, "output channels"};
    for (size_t at = nodes.first(); at < nodes.last(); ++at)
      if (has_residual(parts[at])) return Reason::residual;
    if (!nodes.has_projection && has_residual(parts[1])) return Reason::residual;
    if (nodes.has_expansion && ops::activate(conv_epilogue(parts[0]), 0.f, 0) != 0)
      return {Reason::activation, "0 at 0"};
    return is_in_chunks() ? Reason() : Reason(Reason::not_multiple, "channels", "16 bytes");
  }

  static bool is_pointwise(const ConvShape& s) {
    return s.kernel_h * s.kernel_w == 1 && s.stride_h == 1 && s.stride_w == 1 && s.pad_top == 0 && s.pad_left == 0 &&
           s.groups == 1 && s.in_h == s.out_h && s.in_w == s.out_w;
  }

  /// Whether every pixel read or written is whole chunks of 16 bytes.
  bool is_in_chunks() const {
    const auto fits = [](const Operand& operand, int64_t channels, const int64_t(&strides)[4]) {
      return operand.aligned && channels % 8 == 0 && strides[3] == 1 && strides[0] % 8 == 0 && strides[1] % 8 == 0 &&
             strides[2] % 8 == 0;
    };
    const Problem& last = parts[nodes.last()];
    return fits(parts[nodes.first()].inputs[0], begin().in_c, begin().x) &&
           fits(last.outputs[0], end().out_c, end().y) &&
           (!has_residual(last) || fits(last.inputs[3], end().out_c, end().residual));
  }
};

int64_t round_up(int64_t value, int64_t to) { return ceil_div(value, to) * to; }

constexpr int slice = 32;  // hidden channels at a time

/// Machine instructions that a warp issues, about, for each part of inverted_bottleneck.cu: estimates by its
/// loops. They order candidates, of which the first are timed.
namespace instructions {
constexpr double expand_16_channels = 6, expand_pixels = 38;  // of 16 pixels by 32 hidden channels
constexpr double begin_window = 20, load_tap = 11, tap_of_unit = 5, end_window_of_unit = 15;
constexpr double next_slice = 60;  // of hidden channels: its weights' copies and barriers
constexpr double begin_block = 500, finish_unit = 60, add_up_splits = 600;
}  // namespace instructions

/// The macros of inverted_bottleneck.cu, and what follows from them.
struct Form {
  int cols, warps, units, splits;
  bool expands, projects;
  int64_t ci = 32, co = 0, slices = 1, stride = 1, window = 3;
  int blocks = 1;
  double cost = 0;

  Form(const Block& block, int cols, int warps, int units, int splits)
      : cols(cols),
        warps(warps),
        units(units),
        splits(splits),
        expands(block.nodes.has_expansion),
        projects(block.nodes.has_projection) {
    if (expands) ci = block.expand().in_c;
    if (projects) co = round_up(block.project().out_c, 32);
    slices = ceil_div(block.hidden(), slice);
    stride = block.depthwise().stride_h, window = block.depthwise().kernel_h;
  }

  int threads() const { return warps * 32; }
  int half() const { return warps / cols * units; }
  int tile_h() const { return half() * 2; }
  int tile_w() const { return cols * 8; }
  int64_t in_w() const { return (tile_w() - 1) * stride + window; }
  int64_t halo() const { return ((tile_h() - 1) * stride + window) * in_w(); }
  /// Pixels that half of the tile sees, in eights.
  int64_t groups() const { return ceil_div(((half() - 1) * stride + window) * in_w(), 8); }
  /// Channels of the expansion, and behind them its bias in three parts.
  int64_t ck() const { return expands ? ci + 8 : ci; }
  int64_t x_row() const { return ck() * 2 + (ck() / 8 % 2 ? 0 : 16); }
  int64_t e_row() const { return stride == 1 ? 32 : 48; }
  static constexpr int64_t p_row = 80;
  int64_t tap_row() const { return window == 3 ? 8 : 16; }
  int64_t project_at() const { return expands ? slice * x_row() : 0; }
  int64_t taps_at() const { return project_at() + co * p_row; }
  int64_t biases_at() const { return taps_at() + slice * window * tap_row(); }
  int64_t record_bytes() const { return biases_at() + slice * 4; }
  int64_t shared_bytes() const {
    const int64_t buffers = std::min<int64_t>(2, ceil_div(slices, splits));
    return (expands ? 1 : 2) * (halo() + 7) * x_row() + groups() * 32 * e_row() + buffers * record_bytes();
  }
  int64_t sums() const { return units * co / 2; }  // of a lane

  bool fits(const Properties& properties) const {
    return warps % cols == 0 && groups() <= int64_t{16} * warps && shared_bytes() <= properties.shared_bytes &&
           sums() <= 96 && splits <= slices;
  }
  /// How many blocks a multiprocessor holds, and what all of them take, about, in instructions of one scheduler.
  void weigh(int64_t tiles, const Properties& properties) {
    const int64_t by_registers = 65536 / (threads() * (sums() + 80 + 8 * units));
    const int64_t by_memory = (properties.shared_bytes + 1024) / (shared_bytes() + 1024);
    blocks = static_cast<int>(std::clamp<int64_t>(std::min(by_registers, by_memory), 1, 1024 / threads()));
    const auto real = [](int64_t value) { return static_cast<double>(value); };
    using namespace instructions;
    const double products = real(ck()) / 16 * expand_16_channels;
    const double expansion = expands ? real(ceil_div(groups(), warps)) * (products + expand_pixels) : 0;
    const double taps = real(window * window);
    const double convolution = begin_window + taps * (load_tap + tap_of_unit * units) + end_window_of_unit * units;
    const double projection = real(units * co / 4 + co / 8);  // products, and loads of their weights
    const double each = expansion + convolution + projection + next_slice;
    const double block =
        begin_block + finish_unit * units + real(ceil_div(slices, splits)) * each + (splits > 1 ? add_up_splits : 0);
    const double waves = std::max(1.0, real(tiles * splits) / (real(properties.multiprocessors) * blocks));
    cost = waves * block * std::max(1.0, waves > 1 ? blocks * warps / 8.0 : 1.0);
  }
};

int64_t tiles_of(const ConvShape& out, const Form& form) {
  return out.batch * ceil_div(out.out_h, form.tile_h()) * ceil_div(out.out_w, form.tile_w());
}

std::vector<Form> forms_of(const Block& block, const Properties& properties) {
  constexpr size_t most = 10;
  const ConvShape& out = block.end();
  std::vector<Form> forms;
  for (const int cols : {1, 2, 4})
    for (const int warps : {4, 8})
      for (const int units : {1, 2, 4})
        for (const int splits : {1, 2, 3, 4, 6, 8, 12, 16}) {
          Form form(block, cols, warps, units, splits);
          const int64_t tiles = tiles_of(out, form);
          if (splits > 1 && tiles * splits > int64_t{2} * properties.multiprocessors) break;
          if (!form.fits(properties)) continue;
          form.weigh(tiles, properties);
          forms.push_back(form);
        }
  std::stable_sort(forms.begin(), forms.end(), [](const Form& a, const Form& b) { return a.cost < b.cost; });
  if (forms.size() > most) forms.erase(forms.begin() + most, forms.end());
  return forms;
}

Reason refuses(const Problem& problem, const Properties& properties) {
  if (properties.capability() < 80) return {Reason::capability, "it", "8.0"};
  if (!is_16_bit(problem.inputs[0].dtype) || problem.outputs[0].dtype != problem.inputs[0].dtype)
    return {Reason::element_type, "elements", "f16 or bf16"};
  if (const Reason reason = refuses_added_zeros(problem)) return reason;
  Block block(problem);
  if (const Reason reason = block.refuses()) return reason;
  return forms_of(block, properties).empty() ? Reason(Reason::no_tile) : Reason();
}

Tactic tactic_of(const Block& block, const Form& form) {
  Source source =
      source_from({"diagonal.cuh", "inverted_bottleneck.cu"}, epilogue_defines(conv_epilogue(block.parts[2])));
  const auto activation = [&](const char* name, size_t part) {
    const ops::Epilogue epilogue = conv_epilogue(block.parts[part]);
    const bool from_zero = epilogue.activation == expr::Id::Clip && epilogue.alpha == 0;
    return from_zero ? std::string(name) + "=UpToBeta" : define_expression(name, epilogue.activation);
  };
  source.defines.push_back(form.expands ? activation("ACT_E", 0) : define_expression("ACT_E", expr::Id::Identity));
  source.defines.push_back(activation("ACT_D", 1));
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, int64_t>>{{"EXPAND", form.expands},
                                                                                          {"CI", form.ci},
                                                                                          {"CO", form.co},
                                                                                          {"PROJECT", form.projects},
                                                                                          {"WINDOW", form.window},
                                                                                          {"STRIDE", form.stride},
                                                                                          {"COLS", form.cols},
                                                                                          {"WARPS", form.warps},
                                                                                          {"UNITS", form.units},
                                                                                          {"BLOCKS", form.blocks},
                                                                                          {"SPLIT", form.splits > 1}})
    source.defines.push_back(define(name, value));
  const std::string name = "bottleneck " + std::to_string(form.tile_h()) + "x" + std::to_string(form.tile_w()) + ", " +
                           std::to_string(form.warps) + " warps" +
                           (form.splits > 1 ? " split " + std::to_string(form.splits) : "");
  return {name, {source}, {form.cols, form.warps, form.units, form.splits}};
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  Block block(problem);
  block.refuses();
  std::vector<Tactic> list;
  for (const Form& form : forms_of(block, properties)) list.push_back(tactic_of(block, form));
  return list;
}

/// Of 32 output channels the one in row `n` of weights, such that a lane owns eight neighbouring ones of its sums.
int64_t output_of(int64_t n) { return n % 8 / 2 * 8 + n / 8 * 2 + n % 2; }
/// Of 32 hidden channels the one in row `n` of the expansion and column `n` of the projection.
int64_t hidden_of(int64_t n) { return n / 16 * 16 + n % 8 / 2 * 4 + n / 8 % 2 * 2 + n % 2; }

float rounded(float value, DType type) {
  return type == DType::bf16 ? ops::bf16_value(ops::bf16_bits(value)) : ops::f16_value(ops::f16_bits(value));
}

/// The records of all slices as the kernel's head describes them, with the last bias, padded, behind them.
std::vector<std::byte> packed_weights(const Block& block, const Form& form) {
  const DType type = block.end().y_type;
  const int64_t hidden = block.hidden(), out = form.projects ? block.project().out_c : 0, record = form.record_bytes();
  std::vector<std::byte> packed(static_cast<size_t>(form.slices * record + form.co * 4));
  const auto put = [&](int64_t at, float value) {
    const uint16_t bits = bits16_of(value, type);
    std::memcpy(packed.data() + at, &bits, sizeof bits);
  };
  const auto put_real = [&](int64_t at, float value) { std::memcpy(packed.data() + at, &value, sizeof value); };
  const std::vector<float> taps = conv_weights(block.parts[1], block.depthwise());
  const std::vector<float> bias = conv_bias(block.parts[1], block.depthwise());
  const int64_t all_taps = form.window * form.window;
  std::vector<float> expand, first, project, last;
  int64_t depth = 0;
  if (form.projects) {
    project = conv_weights(block.parts[2], block.project()), last = conv_bias(block.parts[2], block.project());
  }
  if (form.expands) {
    expand = conv_weights(block.parts[0], block.expand()), first = conv_bias(block.parts[0], block.expand());
    depth = block.expand().in_c;
  }
  for (int64_t begin = 0; begin < hidden; begin += slice) {
    const int64_t base = begin / slice * record;
    for (int64_t n = 0; n < slice; ++n) {
      if (const int64_t own = begin + n; own < hidden) {
        for (int64_t tap = 0; tap < all_taps; ++tap)
          put(base + form.taps_at() + (n * form.window + tap / form.window) * form.tap_row() + tap % form.window * 2,
              taps[own * all_taps + tap]);
        put_real(base + form.biases_at() + n * 4, bias[own]);
      }
      const int64_t c = begin + hidden_of(n);
      if (c >= hidden) continue;
      for (int64_t k = 0; k < depth; ++k) put(base + n * form.x_row() + k * 2, expand[c * depth + k]);
      for (int64_t k = depth; form.expands && k < depth + 3; ++k) {
        const float part = rounded(std::clamp(first[c], -largest_f16, largest_f16), type);
        put(base + n * form.x_row() + k * 2, part);
        first[c] -= part;
      }
      for (int64_t row = 0; row < form.co; ++row)
        if (const int64_t channel = row / 32 * 32 + output_of(row % 32); channel < out)
          put(base + form.project_at() + row * Form::p_row + n * 2, project[channel * hidden + c]);
    }
  }
  for (int64_t c = 0; c < out; ++c) put_real(form.slices * record + c * 4, last[c]);
  return packed;
}

class BottleneckStep : public Step {
 public:
  BottleneckStep(const Problem& problem, Device& device, const Tactic& tactic) : device_(device) {
    Block block(problem);
    block.refuses();
    const std::vector<int>& n = tactic.numbers;
    const Form form(block, n[0], n[1], n[2], n[3]);
    const auto shared = static_cast<int>(form.shared_bytes());
    function_ = device.function(tactic.sources[0], "inverted_bottleneck", shared);
    const std::vector<std::byte> packed = packed_weights(block, form);
    packed_ = Buffer::kept(packed.size());
    packed_.upload(packed.data(), packed.size());
    const ConvShape &in = block.begin(), &middle = block.depthwise(), &out = block.end();
    const auto size = [](int64_t value) { return static_cast<int>(value); };
    params_.w = packed_.address();
    params_.bias = packed_.address() + static_cast<Address>(form.slices * form.record_bytes());
    params_.in_h = size(in.in_h), params_.in_w = size(in.in_w), params_.c_in = size(in.in_c);
    params_.out_h = size(out.out_h), params_.out_w = size(out.out_w), params_.c_out = size(out.out_c);
    params_.pad_top = middle.pad_top, params_.pad_left = middle.pad_left;
    params_.tiles_h = size(ceil_div(out.out_h, form.tile_h()));
    params_.tiles_w = size(ceil_div(out.out_w, form.tile_w()));
    params_.hidden = size(block.hidden()), params_.splits = form.splits;
    for (int at = 0; at < 3; ++at)
      params_.xs[at] = in.x[at], params_.ys[at] = out.y[at], params_.rs[at] = out.residual[at];
    const ops::Epilogue first = conv_epilogue(block.parts[0]), second = conv_epilogue(block.parts[1]);
    const ops::Epilogue last = conv_epilogue(block.parts[2]);
    params_.alpha_e = first.alpha, params_.beta_e = first.beta;
    params_.alpha_d = second.alpha, params_.beta_d = second.beta;
    params_.alpha = last.alpha, params_.beta = last.beta;
    residual_ = last.residual != ops::Residual::none;
    const int64_t tiles = tiles_of(out, form);
    grid_ = {tiles, form.splits, 1, form.threads(), shared};
    if (form.splits > 1 && form.projects) {
      workspace_ = static_cast<size_t>(tiles * form.splits * form.sums() * form.threads()) * sizeof(float);
      counters_ = Buffer::kept(static_cast<size_t>(tiles) * 4);
      counters_.clear();
      params_.counters = counters_.address();
    }
  }
  size_t workspace_bytes() const override { return workspace_; }
  bool reads(size_t input) const override { return input == 0 || input == ops::bottleneck_residual; }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.outputs[0], params.partial = at.workspace;
    if (residual_) params.residual = at.inputs[ops::bottleneck_residual];
    launch(device_, function_, grid_, at, params);
  }

 private:
  Device& device_;
  Function function_;
  Buffer packed_, counters_;
  Params params_{};
  Grid grid_;
  size_t workspace_ = 0;
  bool residual_ = false;
};

const KernelRegistrar registered({"tenon:InvertedBottleneck", "bottleneck", 1, refuses, tactics,
                                  make_step<BottleneckStep>});

}  // namespace
}  // namespace tenon::cuda::inverted_bottleneck

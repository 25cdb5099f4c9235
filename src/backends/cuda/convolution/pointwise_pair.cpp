// SPDX-License-Identifier: Apache-2.0
#include "ops/pointwise_pair.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/convolution/int8_conv.h"
#include "backends/cuda/convolution/pointwise_pair_params.h"

namespace tenon::cuda::pointwise_pair {
namespace {

using Params = PointwisePairParams;

constexpr int64_t chunk = 64;  // wide channels at a time
constexpr int most_narrow = 256;

/// The two convolutions as problems of their own.
struct Pair {
  ops::PointwisePair nodes;
  Problem parts[2];
  ConvShape shapes[2]{};
  Int8Conv bytes[2];  // where they are such

  explicit Pair(const Problem& problem) : nodes(ops::pointwise_pair_of(*problem.node)) {
    const auto begins = static_cast<int64_t>(nodes.second_begins);
    const auto& inputs = problem.inputs;
    for (size_t at = 0; at < 2; ++at) {
      parts[at] = problem;
      parts[at].node = at == 0 ? &nodes.first : &nodes.second;
      parts[at].outputs = {problem.outputs[at]};
    }
    parts[0].inputs.assign(inputs.begin(), inputs.begin() + begins);
    parts[1].inputs.assign(inputs.begin() + begins - 1, inputs.end());
    parts[1].inputs[0] = problem.outputs[0];
  }
  Pair(const Pair&) = delete;

  bool is_int8() const { return cuda::is_int8(parts[0]); }
  int64_t element() const { return is_int8() ? 1 : 2; }
  int64_t in() const { return shapes[0].in_c; }
  int64_t wide() const { return shapes[0].out_c; }
  int64_t narrow() const { return shapes[1].out_c; }
  bool adds() const { return has_residual(parts[0]); }
  bool has_zeros(size_t part) const { return is_int8() && bytes[part].x_zero != 0; }
  bool is_listed(size_t part) const { return is_int8() && !bytes[part].inverses.empty(); }
  int64_t lists(size_t part) const {
    return is_int8() ? 2 + int64_t{has_zeros(part)} + 2 * int64_t{is_listed(part)} : 1;
  }
  int64_t chunks() const { return wide() / chunk; }
  int64_t x_row() const { return in() * element() + 16; }
  /// Lists, and what stands behind them.
  int64_t list_bytes() const { return 4 * (lists(0) * wide() + lists(1) * narrow() + 4); }

  Reason refuses() {
    for (size_t at = 0; at < 2; ++at) {
      if (const Reason reason = is_int8() ? int8_conv(parts[at], bytes[at]) : conv_shape(parts[at], shapes[at]))
        return reason;
      if (is_int8()) shapes[at] = bytes[at].shape;
      if (bytes[at].is_float8) return {Reason::element_type, "bytes", "u8"};
      const DType type = shapes[0].x_type;
      if (is_int8() ? type != DType::u8 : !is_16_bit(type)) return {Reason::element_type, "elements", "16 bits or u8"};
      if (shapes[at].x_type != type || shapes[at].y_type != type) return Reason::mixed_types;
      if (!is_pointwise(shapes[at])) return Reason::pointwise;
      if (conv_epilogue(parts[at]).residual == ops::Residual::none ? has_residual(parts[at]) : at == 1)
        return Reason::residual;
    }
    if (in() * element() % 32) return {Reason::not_multiple, "channels", "32 bytes"};
    if (wide() % chunk) return {Reason::not_multiple, "the wide result's channels", chunk};
    if (narrow() % (64 / element())) return {Reason::not_multiple, "the narrow result's channels", 64 / element()};
    if (narrow() > most_narrow) return {Reason::too_many, most_narrow, "narrow channels"};
    const bool fits = is_row(parts[0].inputs[0], shapes[0].x) && is_row(parts[0].outputs[0], shapes[0].y) &&
                      is_row(parts[1].outputs[0], shapes[1].y) &&
                      (!adds() || is_row(parts[0].inputs[3], shapes[0].residual));
    return fits ? Reason() : Reason(Reason::not_contiguous, "pixels");
  }

 private:
  static bool is_pointwise(const ConvShape& s) {
    return s.kernel_h * s.kernel_w == 1 && s.stride_h == 1 && s.stride_w == 1 && s.pad_top == 0 && s.pad_left == 0 &&
           s.groups == 1 && s.in_h == s.out_h && s.in_w == s.out_w;
  }
  /// Whether all pixels lie equally far apart, by whole chunks of 16 bytes.
  bool is_row(const Operand& operand, const int64_t (&strides)[4]) const {
    const ConvShape& s = shapes[0];
    const int64_t pitch = strides[2] * element();
    return operand.aligned && strides[3] == 1 && pitch % 16 == 0 && pitch < 1 << 30 && is_pitched(s, strides);
  }
};

/// The macros of pointwise_pair.cu that are chosen.
struct Form {
  int pieces, warps, depth;  // of 16 pixels a tile
  bool streams = false;

  int64_t rows() const { return int64_t{16} * pieces; }
  int64_t tiles(const Pair& pair) const { return ceil_div(pair.shapes[0].pixels(), rows()); }
  bool keeps_x(const Pair& pair) const { return pair.in() * pair.element() / 32 * pieces <= 8; }
  int64_t in_flight(const Pair& pair) const {
    const int64_t step = pair.adds() ? rows() * chunk * pair.element() : 0;
    return warps * (depth - 1) * (step + rows() * pair.in() * pair.element() / pair.chunks());
  }
  /// Of weights that lie together: those of 64 wide channels, or all.
  int64_t records(const Pair& pair) const { return streams ? pair.chunks() : 1; }
  int64_t together(const Pair& pair) const { return pair.wide() / records(pair); }
  int64_t wide_row(const Pair& pair) const { return together(pair) * pair.element() + 16; }
  int64_t record_bytes(const Pair& pair) const {
    return together(pair) * pair.x_row() + pair.narrow() * wide_row(pair);
  }
  int64_t weight_bytes(const Pair& pair) const { return records(pair) * record_bytes(pair) + pair.list_bytes(); }
  int64_t shared_bytes(const Pair& pair) const {
    const int64_t x = (keeps_x(pair) ? 1 : 2) * rows() * pair.x_row();
    return (streams ? depth : 1) * record_bytes(pair) + pair.list_bytes() +
           warps * (x + (pair.adds() ? depth * rows() * chunk * pair.element() : 0));
  }
  /// Of a thread, about: sums of both, x, what is added and what is made of it, numbers by channel and addresses.
  int64_t registers(const Pair& pair) const {
    const int64_t x = keeps_x(pair) ? pair.in() * pair.element() / 8 : 4;
    return pieces * (pair.narrow() / 2 + 16 + x + 12 * pair.element()) + 48;
  }
  bool fits(const Pair& pair, const Properties& properties) const {
    constexpr int64_t most_registers = 65536, of_thread = 264;  // of which some are not there at once
    return depth - 1 <= pair.chunks() && shared_bytes(pair) <= properties.shared_bytes &&
           registers(pair) <= of_thread && registers(pair) * warps * 32 <= most_registers * 9 / 8;
  }
};

void add_forms(std::vector<Form>& forms, const Pair& pair, const Properties& properties, bool streams) {
  constexpr int64_t enough = 80 << 10;  // less on its way is no gain
  for (const int pieces : {2, 1})
    for (const int warps : {16, 12, 10, 8, 6, 4, 2})
      for (const int depth : {6, 5, 4, 3, 2}) {
        const Form form{pieces, warps, depth, streams};
        if ((warps == 10 && !streams) || !form.fits(pair, properties)) continue;
        forms.push_back(form);
        if (streams || form.in_flight(pair) <= enough) break;
      }
}

/// Those with enough on its way to keep memory busy come first, of these those with more pixels at a time, then those
/// with more of them for each load of weights. Weights that would leave little of shared memory to pixels may be read
/// again for each tile.
std::vector<Form> forms_of(const Pair& pair, const Properties& properties) {
  constexpr size_t most = 10;
  constexpr int64_t enough = 40 << 10;      // bytes of a multiprocessor: latency times its part of the memory's speed
  constexpr int64_t most_read = 300 << 10;  // bytes for a tile of some hundred pixels
  std::vector<Form> forms;
  add_forms(forms, pair, properties, false);
  const int64_t weights = Form{1, 1, 2}.weight_bytes(pair);
  if (weights > properties.shared_bytes / 2 && weights <= most_read) add_forms(forms, pair, properties, true);
  const auto busy = [&](const Form& form) { return std::min(form.in_flight(pair), enough); };
  std::stable_sort(forms.begin(), forms.end(), [&](const Form& a, const Form& b) {
    if (busy(a) != busy(b)) return busy(a) > busy(b);
    if (a.streams != b.streams) return b.streams;
    if (a.rows() * a.warps != b.rows() * b.warps) return a.rows() * a.warps > b.rows() * b.warps;
    return a.pieces > b.pieces;
  });
  if (forms.size() > most) forms.erase(forms.begin() + most, forms.end());
  return forms;
}

Reason refuses(const Problem& problem, const Properties& properties) {
  if (properties.capability() < 80) return {Reason::capability, "it", "8.0"};
  Pair pair(problem);
  if (const Reason reason = pair.refuses()) return reason;
  return forms_of(pair, properties).empty() ? Reason(Reason::no_tile) : Reason();
}

/// Macros of one part, with its name before them.
void add_defines(std::vector<std::string>& defines, const Pair& pair, size_t part) {
  const std::string name = part == 0 ? "FIRST_" : "SECOND_";
  std::vector<std::string> own;
  if (pair.is_int8()) own = int8_defines(pair.bytes[part]);
  else own = epilogue_defines(conv_epilogue(pair.parts[part]));
  if (!pair.is_int8()) own.insert(own.end(), {"LISTED=0", "YZ=0", "IN_STEPS=0"});
  for (const std::string& word : own)
    if (!word.starts_with("STRICT") && !word.starts_with("FP8")) defines.push_back(name + word);
  defines.push_back(define((name + "ZEROS").c_str(), pair.has_zeros(part)));
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  Pair pair(problem);
  pair.refuses();
  std::vector<Tactic> list;
  for (const Form& form : forms_of(pair, properties)) {
    std::vector<std::string> defines = {define("BYTES", pair.is_int8()),
                                        define("STRICT", pair.is_int8() && pair.bytes[0].strict),
                                        "FP8=0",
                                        define("K1", pair.in()),
                                        define("N1", pair.wide()),
                                        define("N2", pair.narrow()),
                                        define("STREAM", form.streams),
                                        define("MI", form.pieces),
                                        define("WARPS", form.warps),
                                        define("DEPTH", form.depth)};
    for (const size_t part : {0, 1}) add_defines(defines, pair, part);
    list.push_back({"pair of " + std::to_string(form.rows()) + " by " + std::to_string(form.warps) + ", " +
                        std::to_string(form.depth) + " deep" + (form.streams ? ", streamed" : ""),
                    {{"pointwise_pair.cu", std::move(defines), ""}},
                    {form.pieces, form.warps, form.depth, form.streams}});
  }
  return list;
}

/// What the kernel calls positions: the channel of one, the position of a row of weights, and of a byte or number along
/// the second's depth.
int64_t channel_of(int64_t position, bool bytes) {
  const int64_t half = position % 64 / 32, lane = position % 32 / 8;
  return bytes ? position / 64 * 64 + lane * 16 + half * 8 + position % 8 : position;
}
int64_t position_of_row(int64_t row) { return row / 32 * 32 + row % 8 / 2 * 8 + row % 32 / 8 * 2 + row % 2; }
int64_t position_of_depth(int64_t k, bool bytes) {
  return bytes ? k / 32 * 32 + k % 16 / 4 * 8 + k % 32 / 16 * 4 + k % 4 : position_of_row(k);
}

/// Weights and lists in the kernel's order. `weight(part, out, in)` gives one, of the type that it has there.
template <class Weight>
std::vector<std::byte> packed_weights(const Pair& pair, const Form& form, const Weight& weight) {
  using Number = decltype(weight(0, 0, 0));
  const bool bytes = pair.is_int8();
  std::vector<std::byte> packed(static_cast<size_t>(form.weight_bytes(pair)));
  const auto put = [&](int64_t at, auto number) { std::memcpy(packed.data() + at, &number, sizeof number); };
  constexpr auto size = static_cast<int64_t>(sizeof(Number));
  const int64_t together = form.together(pair);
  int64_t at = 0;
  for (int64_t begin = 0; begin < pair.wide(); begin += together) {
    for (int64_t row = 0; row < together; ++row, at += pair.x_row())
      for (int64_t k = 0; k < pair.in(); ++k)
        put(at + k * size, weight(0, channel_of(position_of_row(begin + row), bytes), k));
    for (int64_t row = 0; row < pair.narrow(); ++row, at += form.wide_row(pair))
      for (int64_t k = 0; k < together; ++k)
        put(at + k * size,
            weight(1, channel_of(position_of_row(row), bytes), channel_of(position_of_depth(begin + k, bytes), bytes)));
  }
  for (size_t part = 0; part < 2; ++part) {
    const int64_t width = pair.shapes[part].out_c;
    const auto add = [&](const auto& list) {
      for (int64_t position = 0; position < width; ++position, at += 4)
        put(at, list[static_cast<size_t>(channel_of(position, bytes))]);
    };
    if (!bytes) {
      add(conv_bias(pair.parts[part], pair.shapes[part]));
      continue;
    }
    const Int8Conv& conv = pair.bytes[part];
    add(conv.bias), add(conv.scale);
    if (pair.has_zeros(part)) add(zero_sums(conv, int8_weights(pair.parts[part], conv.shape)));
    if (pair.is_listed(part)) add(conv.inverses), add(conv.r_scales);
  }
  for (int word = 0; word < 4; ++word, at += 4) put(at, uint32_t{0x4b000000});
  return packed;
}

std::vector<std::byte> packed_weights(const Pair& pair, const Form& form) {
  const auto all = [&](const auto& weights_of) {
    const auto first = weights_of(pair.parts[0], pair.shapes[0]), second = weights_of(pair.parts[1], pair.shapes[1]);
    return [&pair, first, second](size_t part, int64_t out, int64_t in) {
      return part == 0 ? first[static_cast<size_t>(out * pair.in() + in)]
                       : second[static_cast<size_t>(out * pair.wide() + in)];
    };
  };
  if (pair.is_int8()) return packed_weights(pair, form, all(int8_weights));
  return packed_weights(pair, form, [&, real = all(conv_weights)](size_t part, int64_t out, int64_t in) {
    return bits16_of(real(part, out, in), pair.shapes[0].x_type);
  });
}

class PointwisePairStep : public Step {
 public:
  PointwisePairStep(const Problem& problem, Device& device, const Tactic& tactic) : device_(device) {
    Pair pair(problem);
    pair.refuses();
    const std::vector<int>& n = tactic.numbers;
    const Form form{n[0], n[1], n[2], n[3] != 0};
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    const int shared = number(form.shared_bytes(pair));
    function_ = device.function(tactic.sources[0], "pointwise_pair", shared);
    const std::vector<std::byte> packed = packed_weights(pair, form);
    packed_ = Buffer::kept(packed.size());
    packed_.upload(packed.data(), packed.size());
    params_.w = packed_.address();
    const auto pitch = [&](const int64_t(&strides)[4]) { return number(strides[2] * pair.element()); };
    params_.x_pitch = pitch(pair.shapes[0].x), params_.residual_pitch = pitch(pair.shapes[0].residual);
    params_.wide_pitch = pitch(pair.shapes[0].y), params_.narrow_pitch = pitch(pair.shapes[1].y);
    params_.pixels = number(pair.shapes[0].pixels()), params_.tiles = number(form.tiles(pair));
    params_.first = finish_of(pair, 0), params_.second = finish_of(pair, 1);
    residual_ = pair.adds();
    const int64_t blocks = std::min<int64_t>(params_.tiles, device.properties().multiprocessors);
    grid_ = {blocks, 1, 1, form.warps * 32, shared};
  }
  bool reads(size_t input) const override { return input == 0 || input == 3; }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.wide = at.outputs[0], params.narrow = at.outputs[1];
    if (residual_) params.residual = at.inputs[3];
    launch(device_, function_, grid_, at, params);
  }

 private:
  static Finish finish_of(const Pair& pair, size_t part) {
    if (pair.is_int8()) return cuda::finish_of(pair.bytes[part]);
    const ops::Epilogue epilogue = conv_epilogue(pair.parts[part]);
    Finish finish{};
    finish.alpha = epilogue.alpha, finish.beta = epilogue.beta;
    return finish;
  }

  Device& device_;
  Function function_;
  Buffer packed_;
  Params params_{};
  Grid grid_;
  bool residual_ = false;
};

const KernelRegistrar registered({"tenon:PointwisePair", "tenon:Int8PointwisePair"},
                                 {"", "pair", 1, refuses, tactics, make_step<PointwisePairStep>});

}  // namespace
}  // namespace tenon::cuda::pointwise_pair

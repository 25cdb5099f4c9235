// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/convolution/int8_conv.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "ops/int8_steps.h"

namespace tenon::cuda {
namespace {

// Inputs behind those of Conv.
enum : size_t { w_scale_at = x_zero_at + 1, y_scale_at, y_zero_at, r_scale_at, r_zero_at };

bool has(const Problem& problem, size_t at) { return at < problem.inputs.size() && problem.inputs[at]; }
bool is_list(const Problem& problem, size_t at) {
  return has(problem, at) && problem.inputs[at].constant.elements() > 1;
}
float scale_at(const Problem& problem, size_t at) {
  return has(problem, at) ? *problem.inputs[at].constant.data<float>() : 0;
}
int zero_at(const Problem& problem, size_t at) {
  return has(problem, at) ? *problem.inputs[at].constant.data<uint8_t>() : 0;
}

/// For each output position along an axis, which taps lie inside, as a bit mask.
std::vector<uint64_t> masks(int64_t out, int64_t in, int stride, int pad, int taps, int dilation) {
  std::vector<uint64_t> list;
  for (int64_t at = 0; at < out; ++at) {
    uint64_t mask = 0;
    for (int tap = 0; tap < taps; ++tap) {
      const int64_t place = at * stride - pad + int64_t{tap} * dilation;
      if (place >= 0 && place < in) mask |= uint64_t{1} << tap;
    }
    list.push_back(mask);
  }
  return list;
}

uint64_t all_of(int taps) { return taps >= 64 ? ~uint64_t{0} : (uint64_t{1} << taps) - 1; }

/// Distinct masks, the one of all taps first; and the place of each position's in that list.
std::vector<uint64_t> classes_of(const std::vector<uint64_t>& masks, int taps, std::vector<size_t>& classes) {
  std::vector<uint64_t> distinct{all_of(taps)};
  for (const uint64_t mask : masks) {
    const auto found = std::find(distinct.begin(), distinct.end(), mask);
    classes.push_back(static_cast<size_t>(found - distinct.begin()));
    if (found == distinct.end()) distinct.push_back(mask);
  }
  return distinct;
}

/// Whether all results are within 2^22 steps of 0, where adding 1.5 * 2^23 rounds.
bool is_bounded(const Int8Conv& conv) {
  const ops::Epilogue& epilogue = conv.epilogue;
  const double sum = 128.0 * static_cast<double>(conv.shape.depth()) * std::max(conv.x_zero, 255 - conv.x_zero);
  double most = 0, inverse = conv.inverse, r_scale = conv.r_scale;
  for (size_t channel = 0; channel < conv.scale.size(); ++channel)
    most = std::max(most, sum * std::fabs(conv.scale[channel]) + std::fabs(conv.bias[channel]));
  for (const float one : conv.inverses) inverse = std::max<double>(inverse, one);
  for (const float one : conv.r_scales) r_scale = std::max<double>(r_scale, one);
  most += 255.0 * r_scale;
  // No activation gives more than its input times its parameters, or one.
  const double alpha = std::fabs(epilogue.alpha), beta = std::fabs(epilogue.beta);
  if (epilogue.activation == expr::Id::Clip)
    most = std::max({most, static_cast<double>(epilogue.alpha), -static_cast<double>(epilogue.beta)});
  else if (alpha != 0 || beta != 0) most *= (std::max(1.0, alpha) + 1) * std::max(1.0, beta);
  else most += 1;
  return most * inverse < 4e6;
}

/// Where the convolution counts steps: its numbers in these.
void count_steps(Int8Conv& conv) {
  const bool listed = !conv.inverses.empty();
  const std::span<const float> inverses = listed ? std::span<const float>(conv.inverses) : std::span(&conv.inverse, 1);
  conv.in_steps = conv.quantises && !conv.is_float8 &&
                  ops::counts_steps(conv.epilogue.activation, conv.epilogue.residual == ops::Residual::after, inverses);
  if (!conv.in_steps) return;
  const float first = inverses[0], one_r_scale = conv.r_scale;
  conv.epilogue.alpha *= first, conv.epilogue.beta *= first;
  for (size_t channel = 0; channel < conv.scale.size(); ++channel) {
    const float r_scale = listed ? conv.r_scales[channel] : one_r_scale;
    const ops::ChannelSteps steps = ops::channel_steps(conv.scale[channel], conv.bias[channel], r_scale, conv.r_zero,
                                                       inverses[listed ? channel : 0]);
    conv.scale[channel] = steps.multiplier, conv.bias[channel] = steps.bias;
    if (listed) conv.r_scales[channel] = steps.residual;
    else conv.r_scale = steps.residual;
  }
  conv.inverse = 1;
  std::fill(conv.inverses.begin(), conv.inverses.end(), 1.f);
}

/// The classes of rows and columns.
struct Classes {
  std::vector<size_t> row_of, column_of;  // filled while the two below are made
  std::vector<uint64_t> rows, columns;
  explicit Classes(const ConvShape& s)
      : rows(classes_of(masks(s.out_h, s.in_h, s.stride_h, s.pad_top, s.kernel_h, s.dilation_h), s.kernel_h, row_of)),
        columns(classes_of(masks(s.out_w, s.in_w, s.stride_w, s.pad_left, s.kernel_w, s.dilation_w), s.kernel_w,
                           column_of)) {}
  size_t count() const { return rows.size() * columns.size(); }
};

}  // namespace

bool Int8Conv::has_borders() const {
  if (x_zero == 0) return false;
  const auto touches = [](int64_t out, int64_t in, int stride, int pad, int taps, int dilation) {
    return pad > 0 || (out - 1) * stride - pad + int64_t{taps - 1} * dilation >= in;
  };
  return touches(shape.out_h, shape.in_h, shape.stride_h, shape.pad_top, shape.kernel_h, shape.dilation_h) ||
         touches(shape.out_w, shape.in_w, shape.stride_w, shape.pad_left, shape.kernel_w, shape.dilation_w);
}

std::vector<int32_t> zero_sums(const Int8Conv& conv, const std::vector<int8_t>& weights) {
  std::vector<int32_t> sums(static_cast<size_t>(conv.shape.out_c));
  const int64_t depth = conv.shape.depth();
  for (int64_t channel = 0; channel < conv.shape.out_c; ++channel)
    sums[channel] = -conv.x_zero * std::accumulate(weights.begin() + channel * depth,
                                                   weights.begin() + (channel + 1) * depth, int32_t{0});
  return sums;
}

bool has_dynamic_scale(const Problem& problem) {
  const auto is_dynamic = [&](size_t at) { return has(problem, at) && !problem.inputs[at].constant; };
  return is_dynamic(x_scale_at) || is_dynamic(x_zero_at);
}

Reason int8_shape(const Problem& problem, ConvShape& shape, bool dynamic) {
  const Operand &x = problem.inputs[0], &w = problem.inputs[1], &y = problem.outputs[0];
  const bool floats = is_float8(problem);
  const DType byte = floats ? DType::f8e4m3fn : DType::u8;
  if (x.dtype != byte && (floats || x.dtype != DType::f32))
    return {Reason::element_type, "elements", "bytes, or f32 that becomes u8"};
  if (y.dtype != byte && y.dtype != DType::f32 && y.dtype != DType::f16)
    return {Reason::element_type, "results", "bytes, f32 or f16"};
  if (!w.constant || w.dtype != (floats ? byte : DType::i8)) return {Reason::not_constant, "the weights, of bytes,"};
  for (size_t at = dynamic ? w_scale_at : x_scale_at; at < problem.inputs.size(); ++at)
    if (has(problem, at) && !problem.inputs[at].constant) return {Reason::not_constant, "scales and zero points"};
  if (dynamic && x.dtype != DType::u8) return {Reason::not_constant, "the scale by which floats become bytes"};
  if (dynamic && has(problem, x_scale_at) && problem.inputs[x_scale_at].dtype != DType::f32)
    return {Reason::element_type, "the input's scale", "f32"};
  if (has(problem, y_scale_at) != (y.dtype == byte)) return {Reason::scales, "given where the result is of bytes"};
  if (const Reason reason = conv_geometry(problem, shape)) return reason;
  for (const size_t at : {y_scale_at, r_scale_at})
    if (const int64_t count = has(problem, at) ? problem.inputs[at].constant.elements() : 1;
        count != 1 && count != shape.out_c)
      return {Reason::scales, "one, or one for each channel"};
  return shape.depth() > 65536 ? Reason(Reason::overflow, "sums", 32) : Reason();
}

bool has_listed_scales(const Problem& problem) { return is_list(problem, y_scale_at) || is_list(problem, r_scale_at); }

Reason int8_conv(const Problem& problem, Int8Conv& conv, bool dynamic) {
  if (const Reason reason = int8_shape(problem, conv.shape, dynamic)) return reason;
  const ConvShape& shape = conv.shape;
  conv.epilogue = conv_epilogue(problem);
  conv.is_float8 = is_float8(problem);
  conv.strict = problem.strict && !conv.is_float8;
  conv.x_scale = dynamic ? 1.f : scale_at(problem, x_scale_at);
  conv.x_zero = dynamic ? 0 : zero_at(problem, x_zero_at);
  conv.y_zero = zero_at(problem, y_zero_at);
  conv.r_zero = zero_at(problem, r_zero_at);
  conv.r_scale = scale_at(problem, r_scale_at);
  conv.quantises = has(problem, y_scale_at);
  conv.inverse = conv.quantises ? 1.f / scale_at(problem, y_scale_at) : 0;
  if (has_listed_scales(problem)) {
    const auto listed = [&](size_t at, float one) {
      std::vector<float> list(static_cast<size_t>(shape.out_c), one);
      if (is_list(problem, at)) std::copy_n(problem.inputs[at].constant.data<float>(), list.size(), list.begin());
      return list;
    };
    conv.r_scales = listed(r_scale_at, conv.r_scale);
    conv.inverses = listed(y_scale_at, 0);
    for (float& one : conv.inverses) one = is_list(problem, y_scale_at) ? 1.f / one : conv.inverse;
  }
  conv.bias = conv_bias(problem, shape);
  const Tensor& scales = problem.inputs[w_scale_at].constant;
  const double factor = conv.x_scale;
  for (int64_t channel = 0; channel < shape.out_c; ++channel)
    conv.scale.push_back(static_cast<float>(factor * scales.data<float>()[scales.elements() == 1 ? 0 : channel]));
  count_steps(conv);
  return {};
}

std::vector<int8_t> int8_weights(const Problem& problem, const ConvShape& shape) {
  const int8_t* from = problem.inputs[1].constant.data<int8_t>();
  const int64_t taps = int64_t{shape.kernel_h} * shape.kernel_w, c_in = shape.channels_in(), depth = shape.depth();
  std::vector<int8_t> weights(static_cast<size_t>(shape.out_c * depth));
  for (int64_t n = 0; n < shape.out_c; ++n)
    for (int64_t c = 0; c < c_in; ++c)
      for (int64_t tap = 0; tap < taps; ++tap) weights[n * depth + tap * c_in + c] = from[(n * c_in + c) * taps + tap];
  return weights;
}

Finish finish_of(const Int8Conv& conv) {
  Finish finish{conv.inverse,        conv.r_scale,       8388608.f + static_cast<float>(conv.r_zero),
                conv.epilogue.alpha, conv.epilogue.beta, conv.y_zero};
  if (conv.y_zero != 0 && is_bounded(conv)) finish.y_zero -= 0x4b400000;
  return finish;
}

std::vector<uint32_t> numbers_of(const Int8Conv& conv, const std::vector<int32_t>& zero_sums, int64_t width) {
  std::vector<uint32_t> numbers(5 * static_cast<size_t>(width), 0);
  uint32_t* to = numbers.data();
  const auto add = [&](const auto& list) {
    if (!list.empty()) std::memcpy(to, list.data(), list.size() * 4);
    to += width;
  };
  add(conv.bias), add(conv.scale), add(zero_sums), add(conv.inverses), add(conv.r_scales);
  return numbers;
}

Lists lists_at(Address numbers, int64_t width) {
  const auto list = static_cast<Address>(width) * 4;
  return {numbers, numbers + list, numbers + 2 * list, numbers + 3 * list, numbers + 4 * list};
}

std::vector<std::string> int8_defines(const Int8Conv& conv) {
  std::vector<std::string> defines = epilogue_defines(conv.epilogue);
  defines.push_back(define("STRICT", conv.strict));
  defines.push_back(define("FP8", conv.is_float8));
  defines.push_back(define("IN_STEPS", conv.in_steps));
  defines.push_back(define("LISTED", !conv.inverses.empty()));
  defines.push_back(define("YZ", conv.y_zero == 0 ? 0 : is_bounded(conv) ? 1 : 2));
  return defines;
}

std::string define_bytes(const char* name, DType type) {
  return define_type(name, size_of(type) == 1 ? DType::u8 : type);
}

Source byte_source(const std::vector<std::string>& files, std::vector<std::string> defines) {
  Source source = source_from(files, std::move(defines));
  source.text = std::string(kernel_text("int8.cuh")) + source.text;
  return source;
}

bool has_few_borders(const ConvShape& shape) {
  return shape.kernel_h <= 64 && shape.kernel_w <= 64 && shape.groups == 1 && Classes(shape).count() < 256;
}

bool borders_of(const Int8Conv& conv, const std::vector<int8_t>& weights, int64_t channels, Borders& borders) {
  const ConvShape& s = conv.shape;
  if (!has_few_borders(s)) return false;
  const Classes classes(s);
  const size_t wide = classes.columns.size();
  for (const size_t index : classes.row_of) borders.rows.push_back(static_cast<uint8_t>(index * wide));
  for (const size_t index : classes.column_of) borders.columns.push_back(static_cast<uint8_t>(index));
  borders.sums.assign(classes.count() * static_cast<size_t>(channels), 0);
  const int64_t c_in = s.channels_in(), depth = s.depth();
  for (int64_t channel = 0; channel < s.out_c; ++channel)
    for (int r = 0; r < s.kernel_h; ++r)
      for (int k = 0; k < s.kernel_w; ++k) {
        const int8_t* from = weights.data() + channel * depth + (int64_t{r} * s.kernel_w + k) * c_in;
        const int32_t sum = conv.x_zero * std::accumulate(from, from + c_in, int32_t{0});
        for (size_t at = 0; at < classes.count(); ++at) {
          const bool inside = (classes.rows[at / wide] >> r & 1) && (classes.columns[at % wide] >> k & 1);
          if (!inside) borders.sums[at * static_cast<size_t>(channels) + static_cast<size_t>(channel)] += sum;
        }
      }
  return true;
}

}  // namespace tenon::cuda

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "ops/op.h"

namespace tenon::cpu::quantize {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

/// Scale and zero point for runs of equal ones: one run, or the entries of an axis with `inner` elements each.
struct Scales {
  std::vector<float> scale;
  std::vector<int32_t> zero;
  int64_t inner = 1;
};

int64_t axis_of(const Problem& problem) {
  const int64_t axis = problem.node->integer("axis", 1);
  return axis < 0 ? axis + static_cast<int64_t>(problem.inputs[0].dims.rank()) : axis;
}

Scales scales_of(const Problem& problem) {
  const Tensor& scale = problem.inputs[1].constant;
  Scales scales;
  scales.scale.assign(scale.data<float>(), scale.data<float>() + scale.elements());
  scales.zero.resize(scales.scale.size());
  if (problem.inputs.size() > 2 && problem.inputs[2]) {
    const Tensor& zero = problem.inputs[2].constant;
    for (size_t at = 0; at < scales.zero.size(); ++at) {
      const auto index = static_cast<int64_t>(at);
      if (zero.dtype() == DType::u8) scales.zero[at] = zero.data<uint8_t>()[index];
      else if (zero.dtype() == DType::i8) scales.zero[at] = zero.data<int8_t>()[index];
      else if (zero.dtype() == DType::u16) scales.zero[at] = zero.data<uint16_t>()[index];
      else if (zero.dtype() == DType::i16) scales.zero[at] = zero.data<int16_t>()[index];
      else scales.zero[at] = zero.data<int32_t>()[index];
    }
  }
  const Dims& dims = problem.inputs[0].dims;
  scales.inner = 1;
  for (size_t axis = scale.elements() == 1 ? 0 : static_cast<size_t>(axis_of(problem)) + 1; axis < dims.rank(); ++axis)
    scales.inner *= dims[axis];
  return scales;
}

constexpr int64_t chunk = 4096;  // elements handed out at a time

class ScaleStep : public backends::Step {
 public:
  explicit ScaleStep(const Problem& problem)
      : scales_(scales_of(problem)),
        count_(problem.inputs[0].dims.elements()),
        quantise_(ops::has_trait(problem.node->op, ops::Trait::quantises)),
        type_(quantise_ ? problem.outputs[0].dtype : problem.inputs[0].dtype),
        loops_(loops(isa_for(problem))) {
    if (is_by_channel()) repeat_scales();
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    int64_t begin, end;
    if (is_by_channel()) {
      const auto rows = static_cast<int64_t>(scales_.scale.size());  // their elements
      worker.share((count_ + rows - 1) / rows, begin, end);
      for (; begin < end; ++begin) channels(inputs[0], outputs[0], begin * rows, std::min(rows, count_ - begin * rows));
      return;
    }
    worker.share((count_ + chunk - 1) / chunk, begin, end);
    begin *= chunk;
    end = std::min(end * chunk, count_);
    while (begin < end) {
      const int64_t run = begin / scales_.inner;
      const auto entry = static_cast<size_t>(run) % scales_.scale.size();
      const int64_t stop = scales_.scale.size() == 1 ? end : std::min(end, (run + 1) * scales_.inner);
      part(inputs[0], outputs[0], begin, stop - begin, scales_.scale[entry], scales_.zero[entry]);
      begin = stop;
    }
  }

 private:
  /// Whether entries of the last axis have scales of their own.
  bool is_by_channel() const { return scales_.scale.size() > 1 && scales_.inner == 1 && type_ == DType::u8; }
  /// So many rows that vectors are full where channels are few.
  void repeat_scales() {
    constexpr size_t fewest = 256;
    const size_t row = scales_.scale.size();
    for (size_t at = row; at < std::max(row, fewest / row * row); ++at)
      scales_.scale.push_back(scales_.scale[at - row]), scales_.zero.push_back(scales_.zero[at - row]);
  }
  void channels(const std::byte* x, std::byte* y, int64_t at, int64_t count) const {
    const float* const scale = scales_.scale.data();
    const int32_t* const zero = scales_.zero.data();
    if (quantise_)
      loops_.quantise_each(reinterpret_cast<uint8_t*>(y) + at, reinterpret_cast<const float*>(x) + at, scale, zero,
                           count);
    else
      loops_.dequantise_each(reinterpret_cast<float*>(y) + at, reinterpret_cast<const uint8_t*>(x) + at, scale, zero,
                             count);
  }
  void part(const std::byte* x, std::byte* y, int64_t at, int64_t count, float scale, int32_t zero) const {
    if (quantise_) {
      const float* from = reinterpret_cast<const float*>(x) + at;
      if (type_ == DType::u8) loops_.quantise_u8(reinterpret_cast<uint8_t*>(y) + at, from, scale, zero, count);
      else if (type_ == DType::i8) loops_.quantise_i8(reinterpret_cast<int8_t*>(y) + at, from, scale, zero, count);
      else if (type_ == DType::u16) loops_.quantise_u16(reinterpret_cast<uint16_t*>(y) + at, from, scale, zero, count);
      else loops_.quantise_i16(reinterpret_cast<int16_t*>(y) + at, from, scale, zero, count);
      return;
    }
    float* to = reinterpret_cast<float*>(y) + at;
    if (type_ == DType::u8) loops_.dequantise_u8(to, reinterpret_cast<const uint8_t*>(x) + at, scale, zero, count);
    else if (type_ == DType::i8) loops_.dequantise_i8(to, reinterpret_cast<const int8_t*>(x) + at, scale, zero, count);
    else if (type_ == DType::u16)
      loops_.dequantise_u16(to, reinterpret_cast<const uint16_t*>(x) + at, scale, zero, count);
    else if (type_ == DType::i16)
      loops_.dequantise_i16(to, reinterpret_cast<const int16_t*>(x) + at, scale, zero, count);
    else loops_.dequantise_i32(to, reinterpret_cast<const int32_t*>(x) + at, scale, zero, count);
  }

  Scales scales_;
  int64_t count_;
  bool quantise_;
  DType type_;
  const Loops& loops_;
};

Reason refuses(const Problem& problem) {
  const bool quantise = ops::has_trait(problem.node->op, ops::Trait::quantises);
  const Operand &x = problem.inputs[0], &scale = problem.inputs[1], &y = problem.outputs[0];
  const DType whole = quantise ? y.dtype : x.dtype;
  if ((quantise ? x : y).dtype != DType::f32 || scale.dtype != DType::f32)
    return {Reason::element_type, "elements", "f32"};
  const bool narrow = whole == DType::u8 || whole == DType::i8 || whole == DType::u16 || whole == DType::i16;
  if (!narrow && (quantise || whole != DType::i32))
    return {Reason::element_type, "elements", "integers of 8 or 16 bits"};
  if (!scale.constant || scale.constant.elements() == 0) return {Reason::not_constant, "its scale"};
  if (problem.node->integer("block_size", 0)) return {Reason::scales, "one, or one for each entry of an axis"};
  if (problem.inputs.size() > 2 && problem.inputs[2]) {
    const Tensor& zero = problem.inputs[2].constant;
    if (!zero || zero.elements() != scale.constant.elements()) return {Reason::not_constant, "its zero point"};
    if (zero.dtype() == DType::i32)
      for (int32_t value : zero.values<int32_t>())
        if (value) return {Reason::element_type, "the zero point", "8 bits"};
  }
  if (scale.constant.elements() > 1 && scale.constant.elements() != x.dims[static_cast<size_t>(axis_of(problem))])
    return {Reason::scales, "as many as the axis has entries"};
  return {};
}

std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<ScaleStep>(problem); }

/// Quantises by the range of the data itself, widened to hold 0; outputs the scale and the zero point as well.
class DynamicStep : public backends::Step {
 public:
  explicit DynamicStep(const Problem& problem)
      : count_(problem.inputs[0].dims.elements()),
        chunks_((count_ + chunk - 1) / chunk),
        loops_(loops(isa_for(problem))) {}
  size_t workspace_bytes() const override { return static_cast<size_t>(chunks_) * 2 * sizeof(float); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    auto* ends = reinterpret_cast<float*>(worker.workspace);
    int64_t begin, end;
    worker.share(chunks_, begin, end);
    for (int64_t at = begin; at < end; ++at) {
      const int64_t size = std::min(chunk, count_ - at * chunk);
      loops_.ends(x + at * chunk, size, &ends[2 * at], &ends[2 * at + 1]);
    }
    worker.sync();
    float low = 0, high = 0;
    for (int64_t at = 0; at < chunks_; ++at) low = std::min(low, ends[2 * at]), high = std::max(high, ends[2 * at + 1]);
    const float scale = high == low ? 1.f : (high - low) / 255.f;
    const auto zero = static_cast<uint8_t>(std::nearbyint(std::clamp(-low / scale, 0.f, 255.f)));
    if (worker.id == 0 && outputs[1]) *reinterpret_cast<float*>(outputs[1]) = scale;
    if (worker.id == 0 && outputs[2]) *reinterpret_cast<uint8_t*>(outputs[2]) = zero;
    if (begin < end)
      loops_.quantise_u8(reinterpret_cast<uint8_t*>(outputs[0]) + begin * chunk, x + begin * chunk, scale, zero,
                         std::min(end * chunk, count_) - begin * chunk);
  }

 private:
  int64_t count_, chunks_;
  const Loops& loops_;
};

Reason refuses_dynamic(const Problem& problem) {
  if (problem.outputs.size() < 3) return {Reason::absent, "an output"};
  return {};
}
std::unique_ptr<backends::Step> make_dynamic(const Problem& problem) { return std::make_unique<DynamicStep>(problem); }

const backends::KernelRegistrar quantize({"QuantizeLinear", "loops", 1, refuses_any<refuses>, make_any<make>});
const backends::KernelRegistrar dequantize({"DequantizeLinear", "loops", 1, refuses_any<refuses>, make_any<make>});
const backends::KernelRegistrar dynamic({"DynamicQuantizeLinear", "loops", 1, refuses_any<refuses_dynamic>,
                                         make_any<make_dynamic>});

}  // namespace
}  // namespace tenon::cpu::quantize

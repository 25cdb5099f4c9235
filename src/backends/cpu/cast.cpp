// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "ops/scalar.h"

namespace tenon::cpu::cast {
namespace {

using backends::Problem;
using backends::Reason;
using Convert = void (*)(std::byte* dst, const std::byte* src, int64_t count);

template <class To, class From>
void convert(std::byte* dst, const std::byte* src, int64_t count) {
  auto* to = reinterpret_cast<To*>(dst);
  const auto* from = reinterpret_cast<const From*>(src);
  for (int64_t at = 0; at < count; ++at) {
    if constexpr (std::is_same_v<From, ops::Bool>)
      to[at] = ops::scalar::convert<To>(static_cast<uint8_t>(from[at].byte != 0));
    else to[at] = ops::scalar::convert<To>(from[at]);
  }
}

template <class From>
Convert to_type(DType to) {
  switch (to) {
    case DType::f32: return convert<float, From>;
    case DType::f64: return convert<double, From>;
    case DType::i8: return convert<int8_t, From>;
    case DType::u8: return convert<uint8_t, From>;
    case DType::i32: return convert<int32_t, From>;
    case DType::i64: return convert<int64_t, From>;
    case DType::boolean: return convert<ops::Bool, From>;
    default: return nullptr;
  }
}

void to_half(std::byte* dst, const std::byte* src, int64_t count) {
  loops(active_isa()).to_half(reinterpret_cast<uint16_t*>(dst), reinterpret_cast<const float*>(src), count);
}
void from_half(std::byte* dst, const std::byte* src, int64_t count) {
  loops(active_isa()).from_half(reinterpret_cast<float*>(dst), reinterpret_cast<const uint16_t*>(src), count);
}

void from_bool(std::byte* dst, const std::byte* src, int64_t count) {
  row_ops(active_isa()).from_bool(reinterpret_cast<float*>(dst), reinterpret_cast<const uint8_t*>(src), count);
}

Convert conversion(DType from, DType to) {
  if (from == DType::boolean && to == DType::f32) return from_bool;
  if (from == DType::f32 && to == DType::f16) return to_half;
  if (from == DType::f16 && to == DType::f32) return from_half;
  switch (from) {
    case DType::f32: return to_type<float>(to);
    case DType::f64: return to_type<double>(to);
    case DType::i8: return to_type<int8_t>(to);
    case DType::u8: return to_type<uint8_t>(to);
    case DType::i32: return to_type<int32_t>(to);
    case DType::i64: return to_type<int64_t>(to);
    case DType::boolean: return to_type<ops::Bool>(to);
    default: return nullptr;
  }
}

class CastStep : public backends::Step {
 public:
  explicit CastStep(const Problem& problem)
      : convert_(conversion(problem.inputs[0].dtype, problem.outputs[0].dtype)),
        count_(problem.inputs[0].dims.elements()),
        from_(static_cast<int64_t>(size_of(problem.inputs[0].dtype))),
        to_(static_cast<int64_t>(size_of(problem.outputs[0].dtype))) {}
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    constexpr int64_t chunk = 4096;
    int64_t begin, end;
    worker.share((count_ + chunk - 1) / chunk, begin, end);
    begin *= chunk;
    end = std::min(end * chunk, count_);
    if (begin < end) convert_(outputs[0] + begin * to_, inputs[0] + begin * from_, end - begin);
  }

 private:
  Convert convert_;
  int64_t count_, from_, to_;
};

Reason refuses(const Problem& problem) {
  if (problem.inputs[0].dtype == problem.outputs[0].dtype ||
      !conversion(problem.inputs[0].dtype, problem.outputs[0].dtype))
    return {Reason::element_type, "elements", "types with a conversion"};
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<CastStep>(problem); }

const backends::KernelRegistrar cast({"Cast", "loops", 1, refuses_any<refuses>, make_any<make>});
const backends::KernelRegistrar cast_like({"CastLike", "loops", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::cast

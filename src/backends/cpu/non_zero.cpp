// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "backends/kernel.h"

namespace tenon::cpu::non_zero {
namespace {

using backends::Problem;
using backends::Reason;

constexpr int64_t block = 4096, chunk = 64;  // elements whose hits are counted, and looked at, together

template <class T>
int64_t count_of(const T* x, int64_t count) {
  int32_t hits = 0;
  for (int64_t at = 0; at < count; ++at) hits += x[at] != T(0);
  return hits;
}

/// Calls f with the type of the elements.
template <class F>
void with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::f32: return f(float());
    case DType::i64: return f(int64_t());
    case DType::i32: return f(int32_t());
    default: return f(uint8_t());
  }
}

/// Counts the elements of each block that are not 0; then each block knows where the coordinates of its own begin.
class BlocksStep : public backends::FindingStep {
 public:
  explicit BlocksStep(const Problem& problem)
      : dtype_(problem.inputs[0].dtype),
        dims_(problem.inputs[0].dims),
        elements_(dims_.elements()),
        blocks_((elements_ + block - 1) / block) {}
  size_t workspace_bytes() const override { return static_cast<size_t>(blocks_) * sizeof(int64_t); }

  void find(std::byte* const* inputs, const Worker& worker) const override {
    auto* counts = reinterpret_cast<int64_t*>(worker.workspace);
    int64_t begin, end;
    worker.share(blocks_, begin, end);
    with_type(dtype_, [&]<class T>(T) {
      const T* x = reinterpret_cast<const T*>(inputs[0]);
      for (int64_t at = begin; at < end; ++at)
        counts[at] = count_of(x + at * block, std::min(block, elements_ - at * block));
    });
  }

  Dims found(const std::byte* workspace) const override {
    const auto* counts = reinterpret_cast<const int64_t*>(workspace);
    return {static_cast<int64_t>(dims_.rank()), std::accumulate(counts, counts + blocks_, int64_t{0})};
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* counts = reinterpret_cast<const int64_t*>(worker.workspace);
    const int64_t all = std::accumulate(counts, counts + blocks_, int64_t{0});
    int64_t begin, end;
    worker.share(blocks_, begin, end);
    int64_t* to = reinterpret_cast<int64_t*>(outputs[0]) + std::accumulate(counts, counts + begin, int64_t{0});
    with_type(dtype_, [&]<class T>(T) {
      const T* x = reinterpret_cast<const T*>(inputs[0]);
      for (int64_t at = begin; at < end; to += counts[at++])
        if (counts[at] > 0) write(x, at * block, std::min(elements_, (at + 1) * block), to, all);
    });
  }

 private:
  /// The coordinates of the elements in [first, last) that are not 0; those of an axis lie `pitch` behind those of the
  /// axis before.
  template <class T>
  void write(const T* x, int64_t first, int64_t last, int64_t* to, int64_t pitch) const {
    for (int64_t at = first; at < last; at += chunk) {
      const int64_t count = std::min(chunk, last - at);
      int64_t places[chunk + 1], hits = 0;
      if (count_of(x + at, count) == 0) continue;
      for (int64_t k = 0; k < count; ++k) {
        places[hits] = at + k;
        hits += x[at + k] != T(0);
      }
      for (int64_t hit = 0; hit < hits; ++hit, ++to) {
        int64_t rest = places[hit];
        for (size_t axis = dims_.rank(); axis-- > 1;) {
          const int64_t size = dims_[axis], above = rest / size;
          to[static_cast<int64_t>(axis) * pitch] = rest - above * size;
          rest = above;
        }
        *to = rest;
      }
    }
  }

  DType dtype_;
  Dims dims_;
  int64_t elements_, blocks_;
};

Reason refuses(const Problem& problem) {
  const backends::Operand& x = problem.inputs[0];
  switch (x.dtype) {
    case DType::f32:
    case DType::i64:
    case DType::i32:
    case DType::u8:
    case DType::i8:
    case DType::boolean: break;
    default: return {Reason::element_type, "elements", "f32, i64, i32, u8, i8 or bool"};
  }
  if (!x.dense() || !problem.outputs[0].dense()) return {Reason::not_contiguous, "operands"};
  return x.dims.rank() == 0 || x.dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<BlocksStep>(problem); }

const backends::KernelRegistrar registered(
    {.op = "NonZero", .name = "blocks", .priority = 1, .refuses = refuses, .make = make, .finds = true});

}  // namespace
}  // namespace tenon::cpu::non_zero

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "ops/op.h"

namespace tenon::cpu::reduce {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

enum class After : uint8_t { none, mean, root, log };
/// How a reduction is done.
struct Means {
  ops::Reduction what;
  const char* op;
  Fold fold;
  Before before;
  After after;
};
constexpr Means reductions[] = {{ops::Reduction::sum, "ReduceSum", Fold::sum, Before::none, After::none},
                                {ops::Reduction::mean, "ReduceMean", Fold::sum, Before::none, After::mean},
                                {ops::Reduction::largest, "ReduceMax", Fold::max, Before::none, After::none},
                                {ops::Reduction::smallest, "ReduceMin", Fold::min, Before::none, After::none},
                                {ops::Reduction::product, "ReduceProd", Fold::product, Before::none, After::none},
                                {ops::Reduction::l1, "ReduceL1", Fold::sum, Before::absolute, After::none},
                                {ops::Reduction::l2, "ReduceL2", Fold::sum, Before::square, After::root},
                                {ops::Reduction::squares, "ReduceSumSquare", Fold::sum, Before::square, After::none},
                                {ops::Reduction::log_sum, "ReduceLogSum", Fold::sum, Before::none, After::log}};

/// One neighbouring group of reduced axes of a dense tensor: outer x count x inner to outer x inner.
struct Pass {
  int64_t outer, count, inner;
  Before before;
};

constexpr int64_t tile = 512;     // elements of a line that one worker folds at a time, fewer where there are few
constexpr int64_t piece = 16384;  // a longer row is cut, so that workers share it
constexpr int64_t block = 128;    // lines that are added up by themselves, as rounding errors grow with the number

constexpr int64_t short_row = 33;  // of fewer elements each row is folded in order, many at a time

/// One step of a fold; what is no number stays.
float folded(Fold fold, float a, float b) {
  if (fold == Fold::sum) return a + b;
  if (fold == Fold::product) return a * b;
  return std::isnan(b) || (fold == Fold::max ? b > a : b < a) ? b : a;
}
float prepared(Before before, float x) {
  return before == Before::none ? x : before == Before::square ? x * x : std::fabs(x);
}

/// Folds rows of `count` elements; kCount: as many, or any where it is 0.
template <Fold kFold, Before kBefore, int64_t kCount>
void fold_rows(const float* src, int64_t rows, int64_t count, float* dst) {
  if constexpr (kCount > 0) count = kCount;
  for (int64_t row = 0; row < rows; ++row, src += count) {
    float value = prepared(kBefore, src[0]);
    for (int64_t at = 1; at < count; ++at) value = folded(kFold, value, prepared(kBefore, src[at]));
    dst[row] = value;
  }
}

template <Fold kFold, Before kBefore = Before::none>
void fold_rows(const float* src, int64_t rows, int64_t count, float* dst) {
  if (count == 2) fold_rows<kFold, kBefore, 2>(src, rows, count, dst);
  else if (count == 3) fold_rows<kFold, kBefore, 3>(src, rows, count, dst);
  else if (count == 4) fold_rows<kFold, kBefore, 4>(src, rows, count, dst);
  else fold_rows<kFold, kBefore, 0>(src, rows, count, dst);
}

void fold_rows(Fold fold, Before before, const float* src, int64_t rows, int64_t count, float* dst) {
  if (before == Before::square) return fold_rows<Fold::sum, Before::square>(src, rows, count, dst);
  if (before == Before::absolute) return fold_rows<Fold::sum, Before::absolute>(src, rows, count, dst);
  if (fold == Fold::sum) return fold_rows<Fold::sum>(src, rows, count, dst);
  if (fold == Fold::product) return fold_rows<Fold::product>(src, rows, count, dst);
  if (fold == Fold::max) return fold_rows<Fold::max>(src, rows, count, dst);
  fold_rows<Fold::min>(src, rows, count, dst);
}

/// Reduces one group of axes after the other, the last first; results in between lie in the workspace.
class ReduceStep : public backends::Step {
 public:
  ReduceStep(const Problem& problem, const Means& how, const std::vector<char>& reduced)
      : fold_(how.fold), after_(how.after), loops_(loops(isa_for(problem))) {
    // Sizes of neighbouring groups, kept and reduced by turns.
    std::vector<int64_t> sizes;
    std::vector<char> gone;
    const Dims& dims = problem.inputs[0].dims;
    for (size_t axis = 0; axis < dims.rank(); ++axis) {
      if (dims[axis] == 1) continue;
      if (gone.empty() || gone.back() != reduced[axis]) sizes.push_back(1), gone.push_back(reduced[axis]);
      sizes.back() *= dims[axis];
      if (reduced[axis]) elements_ *= dims[axis];
    }
    Before before = how.before;
    const auto product = [&](size_t begin, size_t end) {
      int64_t total = 1;
      for (size_t at = begin; at < end; ++at) total *= sizes[at];
      return total;
    };
    for (const size_t at : order_of(sizes, gone)) {
      Pass pass{product(0, at), sizes[at], product(at + 1, sizes.size()), before};
      if (pass.inner == 1 && pass.outer < 8 && pass.count >= 2 * piece && pass.count % 64 == 0) {
        // Few long rows: 64 parts of each are folded first.
        passes_.push_back({pass.outer * 64, pass.count / 64, 1, before});
        pass.count = 64;
        pass.before = Before::none;
      }
      if (const int64_t lines = lines_together(pass); lines > 1) {
        passes_.push_back({pass.outer, pass.count / lines, pass.inner * lines, before});
        pass.count = lines;
        pass.before = Before::none;
      }
      passes_.push_back(pass);
      sizes[at] = 1;
      before = Before::none;
    }
    if (passes_.empty()) passes_.push_back({product(0, sizes.size()), 1, 1, before});
    for (size_t at = 0; at + 1 < passes_.size(); ++at)
      between_ = std::max(between_, passes_[at].outer * passes_[at].inner);
  }
  size_t workspace_bytes() const override { return static_cast<size_t>(between_) * 2 * sizeof(float); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* from = reinterpret_cast<const float*>(inputs[0]);
    for (size_t at = 0; at < passes_.size(); ++at) {
      const bool last = at + 1 == passes_.size();
      float* to = last ? reinterpret_cast<float*>(outputs[0])
                       : reinterpret_cast<float*>(worker.workspace) + static_cast<int64_t>(at % 2) * between_;
      fold_pass(passes_[at], from, to, last, worker);
      if (!last) worker.sync();
      from = to;
    }
  }

 private:
  /// The last group first, but behind the others where it makes rows of a vector or two: these are added up as lines.
  static std::vector<size_t> order_of(const std::vector<int64_t>& sizes, const std::vector<char>& gone) {
    constexpr int64_t few = 64;
    std::vector<size_t> order;
    for (size_t at = sizes.size(); at-- > 0;)
      if (gone[at]) order.push_back(at);
    if (order.size() > 1 && order[0] + 1 == sizes.size() && sizes.back() < few)
      std::rotate(order.begin(), order.begin() + 1, order.end());
    return order;
  }
  /// How many neighbouring lines are folded as one, where they are short and many.
  static int64_t lines_together(const Pass& pass) {
    constexpr int64_t most = 64;
    int64_t lines = 1;
    while (pass.inner > 1 && lines < most && pass.inner * lines * 2 <= tile && pass.count % (2 * lines) == 0 &&
           pass.count >= 8 * lines)
      lines *= 2;
    return lines;
  }

  void fold_pass(const Pass& pass, const float* from, float* to, bool last, const Worker& worker) const {
    const int64_t width = std::clamp<int64_t>(pass.outer * pass.inner / 8 / 16 * 16, 16, tile),
                  tiles = (pass.inner + width - 1) / width;
    int64_t begin, end;
    worker.share(pass.outer * tiles, begin, end);
    if (pass.inner == 1 && pass.count < short_row) {
      fold_rows(fold_, pass.before, from + begin * pass.count, end - begin, pass.count, to + begin);
      if (last && after_ != After::none) finish(to + begin, end - begin);
      return;
    }
    for (int64_t at = begin; at < end; ++at) {
      const int64_t outer = at / tiles, first = at % tiles * width, size = std::min(width, pass.inner - first);
      const float* src = from + outer * pass.count * pass.inner + first;
      float* dst = to + outer * pass.inner + first;
      if (pass.inner == 1) {
        *dst = loops_.fold(fold_, pass.before, src, pass.count);
      } else {
        fold_lines(pass, src, dst, size);
      }
      if (last && after_ != After::none) finish(dst, size);
    }
  }
  void fold_lines(const Pass& pass, const float* src, float* dst, int64_t size) const {
    if (fold_ != Fold::sum || pass.count < 2 * block) return fold_block(pass, src, pass.count, dst, size);
    std::fill(dst, dst + size, 0.f);
    float part[tile];
    for (int64_t line = 0; line < pass.count; line += block) {
      fold_block(pass, src + line * pass.inner, std::min(block, pass.count - line), part, size);
      loops_.fold_into(Fold::sum, Before::none, dst, part, size);
    }
  }
  void fold_block(const Pass& pass, const float* src, int64_t lines, float* dst, int64_t size) const {
    const bool direct = pass.before == Before::none;
    if (direct) std::copy(src, src + size, dst);
    else std::fill(dst, dst + size, 0.f);
    for (int64_t line = direct ? 1 : 0; line < lines; ++line)
      loops_.fold_into(fold_, pass.before, dst, src + line * pass.inner, size);
  }
  void finish(float* values, int64_t count) const {
    for (int64_t at = 0; at < count; ++at) {
      if (after_ == After::mean) values[at] /= static_cast<float>(elements_);
      else if (after_ == After::root) values[at] = std::sqrt(values[at]);
      else values[at] = std::log(values[at]);
    }
  }

  Fold fold_;
  After after_;
  std::vector<Pass> passes_;
  int64_t elements_ = 1, between_ = 0;
  const Loops& loops_;
};

const Means& means_of(const Problem& problem) {
  const ops::Reduction what = ops::traits_of(problem.node->op).reduction();
  return *std::find_if(std::begin(reductions), std::end(reductions),
                       [&](const Means& one) { return one.what == what; });
}

/// Which axes go; nullopt where they are not known.
std::optional<std::vector<char>> reduced_axes(const Problem& problem) {
  const size_t rank = problem.inputs[0].dims.rank();
  const bool given = problem.inputs.size() > 1 && problem.inputs[1];
  if (given && !problem.inputs[1].constant) return std::nullopt;
  if (!given || problem.inputs[1].constant.elements() == 0)
    return std::vector<char>(rank, problem.node->integer("noop_with_empty_axes", 0) == 0);
  std::vector<char> reduced(rank, 0);
  const Tensor& axes = problem.inputs[1].constant;
  for (int64_t at = 0; at < axes.elements(); ++at) {
    const int64_t axis = axes.dtype() == DType::i32 ? axes.data<int32_t>()[at] : axes.data<int64_t>()[at];
    reduced[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis)] = 1;
  }
  return reduced;
}

Reason refuses(const Problem& problem) {
  const Operand& x = problem.inputs[0];
  if (x.dtype != DType::f32 || problem.outputs[0].dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (x.dims.elements() == 0) return Reason::empty;
  if (!reduced_axes(problem)) return {Reason::not_constant, "its axes"};
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) {
  return std::make_unique<ReduceStep>(problem, means_of(problem), *reduced_axes(problem));
}

/// Global average and maximum of N, C, spatial…: a reduction of all but two axes.
Reason refuses_global(const Problem& problem) {
  const Operand& x = problem.inputs[0];
  if (x.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (problem.node->text("layout", "NCHW") != "NCHW") return {Reason::layout, "NCHW"};
  if (x.dims.elements() == 0) return Reason::empty;
  return {};
}
std::unique_ptr<backends::Step> make_global(const Problem& problem) {
  std::vector<char> reduced(problem.inputs[0].dims.rank(), 1);
  reduced[0] = reduced[1] = 0;
  return std::make_unique<ReduceStep>(problem, means_of(problem), reduced);
}

struct Register {
  Register() {
    for (const Means& entry : reductions)
      backends::KernelRegistrar({entry.op, "lines", 1, refuses_any<refuses>, make_any<make>});
    for (const char* op : {"GlobalAveragePool", "GlobalMaxPool"})
      backends::KernelRegistrar({op, "lines", 1, refuses_any<refuses_global>, make_any<make_global>});
  }
};
const Register registered;

}  // namespace
}  // namespace tenon::cpu::reduce

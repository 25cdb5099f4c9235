// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "backends/kernel.h"
#include "backends/cpu/conv.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/support.h"
#include "backends/cpu/packing.h"
#include "base/pages.h"
#include "ops/op.h"

namespace tenon::cpu::matmul {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

/// Elements from one place of these axes to the next, where all lie as far apart; `otherwise` where there is but one.
std::optional<int64_t> step_of(const Operand& operand, size_t begin, size_t end, int64_t otherwise) {
  int64_t step = 0, places = 1;
  for (size_t axis = end; axis-- > begin;) {
    if (operand.dims[axis] == 1) continue;
    if (step == 0) step = operand.strides[axis];
    if (step < operand.dims.back() || operand.strides[axis] != step * places) return std::nullopt;
    places *= operand.dims[axis];
  }
  return step == 0 ? otherwise : step;
}

/// Elements from a row of an operand to the next, and from a group of rows to the next.
struct Pitch {
  int64_t row, group;
};

/// Of rows whose elements lie side by side: in one group, or in groups as the axis of rows has them; else none.
std::optional<Pitch> pitch_of(const Operand& operand, bool groups) {
  const size_t rank = operand.dims.rank();
  if (rank == 0 || (operand.dims.back() > 1 && operand.strides[rank - 1] != 1)) return std::nullopt;
  const size_t first = groups && rank > 1 ? rank - 2 : 0;
  const auto row = step_of(operand, first, rank - 1, operand.dims.back());
  const auto group = step_of(operand, 0, first, 0);
  return row && group ? std::optional(Pitch{*row, *group}) : std::nullopt;
}

/// MatMul and Gemm with a constant right operand: a 1x1 convolution over the rows of the left one.
struct Product {
  /// What the node says, for all sizes.
  bool plain = true;        // but for these
  bool transposed = false;  // the constant is [n][k]
  Epilogue epilogue;
  ConvShape shape{};
  Reason reason;

  explicit Product(const Problem& problem) : epilogue(epilogue_of(*problem.node)) {
    const ir::Node& node = *problem.node;
    if (ops::has_trait(node.op, ops::Trait::general_product)) {
      plain = node.integer("transA", 0) == 0 && node.real("alpha", 1) == 1 && node.real("beta", 1) == 1;
      transposed = node.integer("transB", 0);
    }
    fit(problem);
  }

  /// Reads the operands.
  void fit(const Problem& problem) {
    reason = refuses_operands(problem);
    if (reason) return;
    const Operand &a = problem.inputs[0], &b = problem.inputs[1];
    const int64_t k = b.dims[transposed ? 1 : 0], n = b.dims[transposed ? 0 : 1],
                  m = a.dims.elements() / std::max<int64_t>(1, k);
    if (m == 0 || n == 0 || k == 0) reason = Reason::empty;
    if (reason) return;
    if (problem.inputs.size() > 2 && problem.inputs[2]) {
      const Operand& bias = problem.inputs[2];
      if (!bias.constant || bias.dtype != DType::f32 || bias.constant.elements() != n || bias.dims.back() != n)
        reason = {Reason::not_constant, "the bias, a row,"};
    }
    const Operand& y = problem.outputs[0];
    const bool groups = lie_in_groups(problem);
    const int64_t rows = groups ? y.dims[y.dims.rank() - 2] : m;
    shape = rows_shape(rows, k, n, n);
    shape.in_h = shape.out_h = m / rows;
    const auto place = [&](const Operand& operand, int64_t& pixel, int64_t& row, int64_t& image) {
      const Pitch pitch = *pitch_of(operand, groups);
      pixel = pitch.row, row = groups ? pitch.group : m * pitch.row, image = row * shape.in_h;
    };
    place(a, shape.in_pixel, shape.in_row, shape.in_image);
    place(y, shape.out_pixel, shape.out_row, shape.out_image);
    place(problem.inputs.size() > 3 ? problem.inputs[3] : y, shape.res_pixel, shape.res_row, shape.res_image);
  }

 private:
  /// Rows that a slice left in groups, as tokens of several images are without those of classes.
  static bool lie_in_groups(const Problem& problem) {
    for (const Operand* operand : {&problem.inputs[0], &problem.outputs[0]})
      if (!pitch_of(*operand, false)) return true;
    return problem.inputs.size() > 3 && !pitch_of(problem.inputs[3], false);
  }
  Reason refuses_operands(const Problem& problem) const {
    const Operand &a = problem.inputs[0], &b = problem.inputs[1], &y = problem.outputs[0];
    if (!takes_weights(problem)) return {Reason::element_type, "elements", "f32"};
    if (!b.constant || b.dims.rank() != 2) return {Reason::not_constant, "the right operand, a matrix,"};
    const bool groups = lie_in_groups(problem);
    if (!pitch_of(a, groups) || !pitch_of(y, groups) || (groups && a.dims.rank() != y.dims.rank()))
      return {Reason::view, "an operand"};
    if (!plain) return {Reason::attribute, "transA, alpha and beta", "0, 1 and 1"};
    if (problem.inputs.size() > 3 && !(problem.inputs[3].dtype == DType::f32 && problem.inputs[3].dims == y.dims &&
                                       pitch_of(problem.inputs[3], groups)))
      return {Reason::shape, "the residual", "the result's type and sizes, in rows"};
    return {};
  }
};

class MatMulStep : public backends::Step {
 public:
  MatMulStep(const ConvTactic& tactic, const Problem& problem, const Product& product)
      : tactic_(&tactic),
        product_(product),
        packed_(packed_weights(problem, tactic, product.shape, [&] { return weights_of(problem, product); })),
        weights_(problem.inputs[1].constant) {
    const float* bias =
        problem.inputs.size() > 2 && problem.inputs[2] ? problem.inputs[2].constant.data<float>() : nullptr;
    kernel_ = tactic.make(product.shape, product.epilogue, floats_of(*packed_), bias, problem.threads);
  }
  std::unique_ptr<Step> resized(const Problem& problem) const override {
    Product product = product_;
    product.fit(problem);
    if (problem.inputs[1].constant.data() != weights_.data() || product.reason ||
        tactic_->refuses(product.shape, product.epilogue) || !packs_alike(*tactic_, product.shape, product_.shape))
      return nullptr;
    auto other = std::make_unique<MatMulStep>(*this);
    other->product_ = product;
    other->kernel_ = kernel_->resized(product.shape, problem.threads);
    return other;
  }
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  size_t packed_bytes() const override { return packed_->size(); }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const bool adds = product_.epilogue.residual != Residual::none;
    kernel_->run(reinterpret_cast<const float*>(inputs[0]), adds ? reinterpret_cast<const float*>(inputs[3]) : nullptr,
                 reinterpret_cast<float*>(outputs[0]), worker);
  }

 private:
  /// The constant as [n][k].
  static Tensor weights_of(const Problem& problem, const Product& product) {
    const Tensor& b = problem.inputs[1].constant;
    if (product.transposed) return weights_f32(b);
    const int64_t k = product.shape.in_c, n = product.shape.out_c;
    Tensor turned = scratch({n, k});
    for (int64_t row = 0; row < n; ++row)
      for (int64_t column = 0; column < k; ++column)
        turned.data<float>()[row * k + column] = weight_at(b, column * n + row);
    release_pages(b.data(), b.bytes());
    return turned;
  }

  const ConvTactic* tactic_;
  Product product_;
  Packed packed_;
  Tensor weights_;
  std::shared_ptr<const ConvKernel> kernel_;
};

constexpr const char* bf16_dot = "bf16_dot";
constexpr const char* bf16_tiles = "bf16_tiles";
constexpr const char* gemv_f16 = "gemv_f16";
constexpr const char* gemv_bf16 = "gemv_bf16";
constexpr const char* strassen = "strassen";
constexpr bool is_bf16(const char* name) { return name[0] == 'b'; }
constexpr bool changes_sums(const char* name) { return name[0] == 's'; }  // strassen
/// Of the weights that stay as they are; f32: of any.
constexpr DType kept_type(const char* name) {
  return name == gemv_f16 ? DType::f16 : name == gemv_bf16 ? DType::bf16 : DType::f32;
}

template <const char* const& name>
Reason refuses(const Problem& problem) {
  if (is_bf16(name) && !problem.bf16) return {Reason::precision, "bf16"};
  if (kept_type(name) != DType::f32 && problem.inputs[1].dtype != kept_type(name))
    return {Reason::element_type, "the weights", kept_type(name) == DType::f16 ? "f16" : "bf16"};
  const Product product(problem);
  if (product.reason) return product.reason;
  if (changes_sums(name) && (problem.strict || problem.fused)) return {Reason::strict, "summation"};
  const ConvTactic* tactic = conv_tactic_named(problem, name);
  return tactic ? tactic->refuses(product.shape, product.epilogue) : Reason(Reason::instruction_set);
}

template <const char* const& name>
std::unique_ptr<backends::Step> make(const Problem& problem) {
  return std::make_unique<MatMulStep>(*conv_tactic_named(problem, name), problem, Product(problem));
}

constexpr const char* direct = "direct";
constexpr const char* gemv = "gemv";
const backends::KernelRegistrar matmul_direct({"MatMul", direct, 1, refuses<direct>, make<direct>, "direct"});
const backends::KernelRegistrar matmul_gemv({"MatMul", gemv, 2, refuses<gemv>, make<gemv>, "direct"});
const backends::KernelRegistrar gemm_direct({"Gemm", direct, 1, refuses<direct>, make<direct>, "direct"});
const backends::KernelRegistrar gemm_gemv({"Gemm", gemv, 2, refuses<gemv>, make<gemv>, "direct"});
const backends::KernelRegistrar matmul_strassen({"MatMul", strassen, 0, refuses<strassen>, make<strassen>, "strassen"});
const backends::KernelRegistrar gemm_strassen({"Gemm", strassen, 0, refuses<strassen>, make<strassen>, "strassen"});
const backends::KernelRegistrar matmul_gemv_f16({"MatMul", gemv_f16, 3, refuses<gemv_f16>, make<gemv_f16>, "direct"});
const backends::KernelRegistrar gemm_gemv_f16({"Gemm", gemv_f16, 3, refuses<gemv_f16>, make<gemv_f16>, "direct"});
const backends::KernelRegistrar matmul_gemv_bf16({"MatMul", gemv_bf16, 3, refuses<gemv_bf16>, make<gemv_bf16>,
                                                  "direct"});
const backends::KernelRegistrar gemm_gemv_bf16({"Gemm", gemv_bf16, 3, refuses<gemv_bf16>, make<gemv_bf16>, "direct"});
const backends::KernelRegistrar matmul_bf16_dot({"MatMul", bf16_dot, 3, refuses<bf16_dot>, make<bf16_dot>,
                                                 "bf16 bf16_dots"});
const backends::KernelRegistrar gemm_bf16_dot({"Gemm", bf16_dot, 3, refuses<bf16_dot>, make<bf16_dot>,
                                               "bf16 bf16_dots"});
const backends::KernelRegistrar matmul_bf16_tiles({"MatMul", bf16_tiles, 4, refuses<bf16_tiles>, make<bf16_tiles>,
                                                   "bf16 bf16_tiles"});
const backends::KernelRegistrar gemm_bf16_tiles({"Gemm", bf16_tiles, 4, refuses<bf16_tiles>, make<bf16_tiles>,
                                                 "bf16 bf16_tiles"});

}  // namespace
}  // namespace tenon::cpu::matmul

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "ops/epilogue.h"
#include "ops/floats.h"
#include "ops/inference.h"
#include "ops/weight_only.h"
#include "ops/window.h"

namespace tenon::ops::weight_only_matmul {
namespace {

using namespace weight_only;

struct Sizes {
  int64_t k, block, bits, blocks;
};

template <class Context>
Sizes sizes_of(const Context& ctx) {
  const ir::Node& node = ctx.node();
  Sizes s{node.integer("k", 0), node.integer("block", 32), node.integer("bits", 4), 0};
  if (s.k < 1 || s.block < 1 || s.block > INT32_MAX || (s.bits != 4 && s.bits != 8) || s.block * s.bits % 8 != 0)
    ctx.fail("its weights are in no blocks of 4 or 8 bits");
  s.blocks = (s.k - 1) / s.block + 1;
  return s;
}

void check(Inference& ctx, size_t input, const ir::Shape& wanted, std::initializer_list<DType> types,
           const char* what) {
  const DType type = ctx.dtype(input);
  if (std::find(types.begin(), types.end(), type) == types.end())
    ctx.fail(std::string(what) + " are of type " + std::string(name(type)));
  const ir::Shape* shape = ctx.shape(input);
  if (!shape || *shape != wanted)
    ctx.fail(std::string(what) + " must be " + ir::str(wanted) + (shape ? " and are " + ir::str(*shape) : ""));
}

void infer(Inference& ctx) {
  const Sizes s = sizes_of(ctx);
  const ir::Shape *x = ctx.shape(data), *w = ctx.shape(weights);
  const DType type = ctx.dtype(data);
  if (type != DType::undefined && wide_type(type) != DType::f32) ctx.fail("its data are no floats of 32 or 16 bits");
  const DType result = output_type(ctx, type);
  if (result != type && result != DType::f32) ctx.fail("output_dtype is neither f32 nor the type of its data");
  if (!w || w->size() != 3 || !ir::is_constant(*w)) ctx.fail("its weights have no three known sizes");
  const ir::Dim outputs = (*w)[0];
  check(ctx, weights, {outputs, s.blocks, block_bytes(s.block, s.bits)}, {DType::u8}, "its weights");
  check(ctx, scales, {outputs, s.blocks}, {DType::f32, DType::f16, DType::bf16}, "its scales");
  if (ctx.has(zero_points)) check(ctx, zero_points, {outputs, s.blocks}, {DType::u8}, "its zero points");
  if (ctx.has(bias)) check(ctx, bias, {outputs}, {type, DType::f32}, "its bias");
  std::optional<ir::Shape> to;
  if (x) {
    if (x->empty() || differ(x->back(), ir::Dim(s.k))) ctx.fail("its data are " + ir::str(*x));
    to = *x;
    to->back() = outputs;
  }
  const Epilogue epilogue = read_epilogue(ctx);
  check_residual(ctx, epilogue, result, to);
  check_slopes(ctx, epilogue, outputs);
  ctx.set(0, result, to);
}

void evaluate(Evaluation& ctx) {
  const Sizes s = sizes_of(ctx);
  const DType type = output_type(ctx, ctx.input(data).dtype());
  const Tensor x = as_f32(ctx.input(data)), &w = ctx.input(weights);
  const Tensor scale = as_f32(ctx.input(scales));
  const int64_t outputs = w.dims()[0], rows = x.elements() / s.k, bytes = block_bytes(s.block, s.bits);
  const bool fits = x.dims().rank() > 0 && x.dims().back() == s.k && x.dtype() == DType::f32 &&
                    w.dims() == Dims{outputs, s.blocks, bytes} && scale.dims() == Dims{outputs, s.blocks} &&
                    (!ctx.has(zero_points) || ctx.input(zero_points).dims() == scale.dims()) &&
                    (!ctx.has(bias) || ctx.input(bias).dims() == Dims{outputs});
  if (!fits) ctx.fail("its operands do not fit each other");
  const Tensor row_bias = ctx.has(bias) ? as_f32(ctx.input(bias)) : Tensor();
  Dims dims = x.dims();
  dims[dims.rank() - 1] = outputs;
  const Epilogue epilogue = read_epilogue(ctx);
  const bool adds = epilogue.residual != Residual::none;
  if (adds && (!ctx.has(residual) || !(ctx.input(residual).dims() == dims)))
    ctx.fail("the residual is not like the output");
  const Tensor added = adds ? as_f32(ctx.input(residual)) : Tensor();
  Tensor result(DType::f32, dims);
  auto* const to = result.data<float>();
  std::vector<float> column(static_cast<size_t>(s.k));
  for (int64_t n = 0; n < outputs; ++n) {
    for (int64_t k = 0; k < s.k; ++k) {
      const int64_t at = n * s.blocks + k / s.block;
      const int zero = ctx.has(zero_points) ? ctx.input(zero_points).data<uint8_t>()[at] : middle(s.bits);
      const int number = integer(w.data<uint8_t>() + at * bytes, k % s.block, s.bits);
      column[static_cast<size_t>(k)] = static_cast<float>(number - zero) * scale.data<float>()[at];
    }
    for (int64_t row = 0; row < rows; ++row) {
      double sum = row_bias ? row_bias.data<float>()[n] : 0;
      const float* from = x.data<float>() + row * s.k;
      for (int64_t k = 0; k < s.k; ++k) sum += static_cast<double>(from[k]) * column[static_cast<size_t>(k)];
      const double other = adds ? added.data<float>()[row * outputs + n] : 0;
      apply(epilogue, sum, other, n);
      to[row * outputs + n] = static_cast<float>(sum);
    }
  }
  deliver(ctx, 0, type, result);
}

TENON_OP("tenon:WeightOnlyMatMul", 2, 6, 1, 1, infer, evaluate,
         epilogue_attributes() + AttributeDefs{attr::integer("k"), attr::integer("block"), attr::integer("bits"),
                                               attr::element_type("output_dtype").internal()},
         Trait::product | Trait::same_type);

}  // namespace
}  // namespace tenon::ops::weight_only_matmul

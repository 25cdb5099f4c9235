// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <random>

#include "ops/floats.h"

namespace tenon::ops::dropout {
namespace {

void infer(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  const auto shape = x ? std::optional(*x) : std::nullopt;
  ctx.set(0, ctx.dtype(0), shape);
  if (ctx.outputs() > 1) ctx.set(1, DType::boolean, shape);
}

/// Identity, unless input 2 asks for training, which drops elements with probability `ratio` and scales the others.
void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const bool training = ctx.has(2) && ctx.input(2).dtype() == DType::boolean && ctx.input(2).elements() == 1 &&
                        *ctx.input(2).data<uint8_t>();
  double ratio = 0;
  if (training) {
    ratio = 0.5;
    if (ctx.has(1)) {
      const std::vector<double> list = reals(ctx, ctx.input(1));
      if (list.size() != 1 || !(list[0] >= 0 && list[0] < 1)) ctx.fail("the ratio is not one number in [0, 1)");
      ratio = list[0];
    }
  }
  Tensor& y = ctx.output(0, x.dtype(), x.dims());
  Tensor mask(DType::boolean, x.dims());
  std::memset(mask.data(), 1, mask.bytes());
  if (x.bytes()) std::memcpy(y.data(), x.data(), x.bytes());
  if (ratio > 0) {
    // Two draws of a Mersenne Twister give 53 bits, as NumPy's legacy generator does: the source of ONNX's expected
    // values.
    std::mt19937 random(static_cast<uint32_t>(ctx.node().integer("seed", 0)));
    const auto draw = [&random] {
      const uint64_t high = random() >> 5, low = random() >> 6;
      return static_cast<double>((high << 26) + low) * 0x1p-53;
    };
    dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
      for (int64_t i = 0; i < x.elements(); ++i) {
        const bool keep = draw() >= ratio;
        mask.data<uint8_t>()[i] = keep;
        y.data<T>()[i] = rounded<T>(keep ? static_cast<double>(x.data<T>()[i]) / (1 - ratio) : 0.0);
      }
    });
  }
  if (ctx.wants(1)) deliver(ctx, 1, DType::boolean, mask);
}

TENON_OP("Dropout", 1, 3, 1, 2, infer, evaluate,
         {attr::consumed_inputs(), attr::flag("is_test").up_to(6), attr::real("ratio").up_to(11),
          attr::integer("seed").from(12)},
         Trait::random);

}  // namespace
}  // namespace tenon::ops::dropout

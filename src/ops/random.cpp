// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <numbers>

#include "base/counted.h"
#include "ops/dispatch.h"
#include "ops/inference.h"

/// Random numbers depend on the attribute seed and the place of the element alone: every run of a model gives the same.
/// The importer gives each node without a seed one of its own.
namespace tenon::ops::random {
namespace {

/// Number `at` of the stream: Steele, Lea and Flood's SplitMix64, by index.
uint64_t bits_at(uint64_t seed, uint64_t at) {
  uint64_t z = seed + (at + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
/// In [0, 1), 53 bits.
double uniform_at(uint64_t seed, uint64_t at) { return static_cast<double>(bits_at(seed, at) >> 11) * 0x1p-53; }
/// By Box and Muller.
double normal_at(uint64_t seed, uint64_t at) {
  const double radius = std::sqrt(-2 * std::log(1 - uniform_at(seed, 2 * at)));
  return radius * std::cos(2 * std::numbers::pi * uniform_at(seed, 2 * at + 1));
}
uint64_t seed_of(const ir::Node& node) { return bits_at(std::bit_cast<uint32_t>(node.real("seed", 0)), 0); }

DType type_of(const auto& ctx, DType otherwise) {
  return static_cast<DType>(ctx.node().integer("dtype", static_cast<int64_t>(otherwise)));
}

void infer_shaped(Inference& ctx) {
  ir::Shape shape;
  for (int64_t size : ctx.node().integers("shape")) {
    if (size < 0) ctx.fail("the shape has a negative size " + std::to_string(size));
    shape.push_back(size);
  }
  ctx.set(0, type_of(ctx, DType::f32), std::move(shape));
}
void infer_like(Inference& ctx) { ctx.set(0, type_of(ctx, ctx.dtype(0)), known_shape(ctx, 0)); }

template <bool normal>
void fill(Evaluation& ctx, DType type, const Dims& dims) {
  const uint64_t seed = seed_of(ctx.node());
  const double a = normal ? ctx.node().real("mean", 0) : ctx.node().real("low", 0),
               b = normal ? ctx.node().real("scale", 1) : ctx.node().real("high", 1) - a;
  dispatch<Floats>(ctx, type, [&]<class T>(Type<T>) {
    T* to = ctx.output(0, type, dims).template data<T>();
    for (int64_t at = 0, count = dims.elements(); at < count; ++at) {
      const auto place = static_cast<uint64_t>(at);
      to[at] =
          static_cast<T>(static_cast<Wide<T>>(a + b * (normal ? normal_at(seed, place) : uniform_at(seed, place))));
    }
  });
}
template <bool normal>
void evaluate_shaped(Evaluation& ctx) {
  fill<normal>(ctx, type_of(ctx, DType::f32), Dims(ctx.node().integers("shape")));
}
template <bool normal>
void evaluate_like(Evaluation& ctx) {
  fill<normal>(ctx, type_of(ctx, ctx.input(0).dtype()), ctx.input(0).dims());
}

/// 1 with the probability that the input states.
void evaluate_bernoulli(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const uint64_t seed = seed_of(ctx.node());
  const DType type = type_of(ctx, x.dtype());
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    dispatch<NumbersAndBool>(ctx, type, [&]<class O>(Type<O>) {
      O* to = ctx.output(0, type, x.dims()).template data<O>();
      for (int64_t at = 0, count = x.elements(); at < count; ++at) {
        const bool one =
            uniform_at(seed, static_cast<uint64_t>(at)) < static_cast<double>(static_cast<Wide<T>>(x.data<T>()[at]));
        if constexpr (std::is_same_v<O, Bool>) to[at] = Bool(one);
        else to[at] = static_cast<O>(static_cast<Wide<O>>(one ? 1 : 0));
      }
    });
  });
}

void infer_multinomial(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  ctx.set(0, type_of(ctx, DType::i32),
          ir::Shape{x && x->size() == 2 ? (*x)[0] : ctx.unknown(), ctx.node().integer("sample_size", 1)});
}

/// Classes drawn by unnormalised log probabilities, a row of them for each batch entry.
void evaluate_multinomial(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const int64_t samples = ctx.node().integer("sample_size", 1);
  if (x.dims().rank() != 2 || x.dims()[1] < 1 || samples < 0)
    ctx.fail("the input is " + x.dims().str() + " for " + counted(samples, "sample"));
  const int64_t rows = x.dims()[0], classes = x.dims()[1];
  const uint64_t seed = seed_of(ctx.node());
  const DType type = type_of(ctx, DType::i32);
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    dispatch<Indices>(ctx, type, [&]<class O>(Type<O>) {
      O* to = ctx.output(0, type, {rows, samples}).template data<O>();
      std::vector<double> sums(static_cast<size_t>(classes));
      for (int64_t row = 0; row < rows; ++row) {
        const T* logits = x.data<T>() + row * classes;
        double highest = -INFINITY, total = 0;
        for (int64_t k = 0; k < classes; ++k) highest = std::max<double>(highest, static_cast<Wide<T>>(logits[k]));
        for (int64_t k = 0; k < classes; ++k)
          sums[k] = total += std::exp(static_cast<double>(static_cast<Wide<T>>(logits[k])) - highest);
        for (int64_t at = 0; at < samples; ++at) {
          const double wanted = uniform_at(seed, static_cast<uint64_t>(row * samples + at)) * total;
          to[row * samples + at] = static_cast<O>(
              std::min<int64_t>(classes - 1, std::upper_bound(sums.begin(), sums.end(), wanted) - sums.begin()));
        }
      }
    });
  });
}

TENON_OP("RandomUniform", 0, 0, 1, 1, infer_shaped, evaluate_shaped<false>,
         {attr::element_type("dtype"), attr::real("high"), attr::real("low"), attr::real("seed"),
          attr::integers("shape").at_least(0).required()},
         Trait::random);
TENON_OP("RandomNormal", 0, 0, 1, 1, infer_shaped, evaluate_shaped<true>,
         {attr::element_type("dtype"), attr::real("mean"), attr::real("scale"), attr::real("seed"),
          attr::integers("shape").at_least(0).required()},
         Trait::random);
TENON_OP("RandomUniformLike", 1, 1, 1, 1, infer_like, evaluate_like<false>,
         {attr::element_type("dtype"), attr::real("high"), attr::real("low"), attr::real("seed")}, Trait::random);
TENON_OP("RandomNormalLike", 1, 1, 1, 1, infer_like, evaluate_like<true>,
         {attr::element_type("dtype"), attr::real("mean"), attr::real("scale"), attr::real("seed")}, Trait::random);
TENON_OP("Bernoulli", 1, 1, 1, 1, infer_like, evaluate_bernoulli, {attr::element_type("dtype"), attr::real("seed")},
         Trait::random);
TENON_OP("Multinomial", 1, 1, 1, 1, infer_multinomial, evaluate_multinomial,
         {attr::element_type("dtype"), attr::integer("sample_size").at_least(1), attr::real("seed")}, Trait::random);

}  // namespace
}  // namespace tenon::ops::random

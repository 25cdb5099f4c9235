#pragma once
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "ops/layout.h"

/// What Conv, MatMul and Gemm do to their result before storing it: internal attributes "activation" with floats
/// "alpha" and "beta", and "residual" = "before" or "after" (the activation), which adds a tensor of the output's shape
/// given as input 3.
namespace tenon::ops {

enum class Activation {
  none,
  relu,
  clip,
  silu,
  sigmoid,
  hardswish,
  hardsigmoid,
  leakyrelu,
  tanh,
  gelu,
  gelutanh,
  mish,
  elu
};
enum class Residual { none, before, after };

struct Epilogue {
  Activation activation = Activation::none;
  Residual residual = Residual::none;
  float alpha = 0, beta = 0;  // bounds of clip; slope of leakyrelu, elu; slope and offset of hardsigmoid
  bool empty() const { return activation == Activation::none && residual == Residual::none; }
};

inline AttributeDefs epilogue_attributes() {
  return {attr::text("activation").internal(), attr::real("alpha").internal(), attr::real("beta").internal(),
          attr::text("residual").one_of({"before", "after"}).internal()};
}

/// Those of a convolution beside its window.
inline AttributeDefs fused_attributes() {
  return layout_attribute() + epilogue_attributes() +
         AttributeDefs{attr::text("input_layout").one_of({"NCHW", "NHWC"}).internal(),
                       attr::element_type("output_dtype").internal()};
}

/// Fails the node on an unknown word.
template <class Context>
Epilogue read_epilogue(Context& ctx) {
  static const std::pair<const char*, Activation> names[] = {
      {"", Activation::none}, {"relu", Activation::relu}, {"clip", Activation::clip}, {"silu", Activation::silu},
      {"sigmoid", Activation::sigmoid}, {"hardswish", Activation::hardswish}, {"hardsigmoid", Activation::hardsigmoid},
      {"leakyrelu", Activation::leakyrelu}, {"tanh", Activation::tanh}, {"gelu", Activation::gelu},
      {"gelutanh", Activation::gelutanh}, {"mish", Activation::mish}, {"elu", Activation::elu}};
  const ir::Node& node = ctx.node();
  Epilogue epilogue;
  const std::string word = node.text("activation", "");
  const auto* found =
      std::find_if(std::begin(names), std::end(names), [&](const auto& entry) { return word == entry.first; });
  if (found == std::end(names)) ctx.fail("activation \"" + word + "\" is not known");
  epilogue.activation = found->second;
  float alpha = 0, beta = 0;
  if (epilogue.activation == Activation::clip) alpha = -INFINITY, beta = INFINITY;
  if (epilogue.activation == Activation::leakyrelu) alpha = 0.01f;
  if (epilogue.activation == Activation::elu) alpha = 1;
  if (epilogue.activation == Activation::hardsigmoid) alpha = 0.2f, beta = 0.5f;
  epilogue.alpha = node.real("alpha", alpha);
  epilogue.beta = node.real("beta", beta);
  const std::string place = node.text("residual", "");
  if (place == "before") epilogue.residual = Residual::before;
  else if (place == "after") epilogue.residual = Residual::after;
  else if (!place.empty()) ctx.fail("residual is \"" + place + "\"");
  return epilogue;
}

template <class T>
T activate(const Epilogue& epilogue, T x) {
  const T alpha = epilogue.alpha, beta = epilogue.beta;
  switch (epilogue.activation) {
    case Activation::none: return x;
    case Activation::relu: return x < 0 ? T(0) : x;
    case Activation::clip: return x < alpha ? alpha : x > beta ? beta : x;
    case Activation::silu: return x / (1 + std::exp(-x));
    case Activation::sigmoid: return 1 / (1 + std::exp(-x));
    case Activation::hardswish: return x * std::clamp<T>(x / 6 + T(0.5), 0, 1);
    case Activation::hardsigmoid: return std::clamp<T>(alpha * x + beta, 0, 1);
    case Activation::leakyrelu: return x < 0 ? alpha * x : x;
    case Activation::tanh: return std::tanh(x);
    case Activation::gelu: return x * T(0.5) * (1 + std::erf(x / std::numbers::sqrt2_v<T>));
    case Activation::gelutanh: {
      const T inner = std::sqrt(2 * std::numbers::inv_pi_v<T>) * (x + T(0.044715) * x * x * x);
      return x * T(0.5) * (1 + std::tanh(inner));
    }
    case Activation::mish: return x * std::tanh(x > 20 ? x : std::log1p(std::exp(x)));
    case Activation::elu: return x < 0 ? alpha * std::expm1(x) : x;
  }
  return x;
}

/// Type of what a convolution of bytes gives unquantised: output_dtype, f32 where it says nothing.
template <class Context>
DType real_type(Context& ctx) {
  const auto type = static_cast<DType>(ctx.node().integer("output_dtype", static_cast<int64_t>(DType::f32)));
  if (type != DType::f32 && type != DType::f16) ctx.fail("output_dtype is neither f32 nor f16");
  return type;
}

/// In place over `count` elements; `residual` is read only where the epilogue has one.
template <class T>
void apply(const Epilogue& epilogue, T* values, const T* residual, int64_t count) {
  if (epilogue.empty()) return;
  for (int64_t i = 0; i < count; ++i) {
    if (epilogue.residual == Residual::before) values[i] += residual[i];
    values[i] = activate(epilogue, values[i]);
    if (epilogue.residual == Residual::after) values[i] += residual[i];
  }
}

/// Checks during inference that the residual, where there is one, is an input of the output's type and shape.
inline void check_residual(Inference& ctx, const Epilogue& epilogue, DType dtype,
                           const std::optional<ir::Shape>& output) {
  if (epilogue.residual == Residual::none) return;
  if (!ctx.has(3)) ctx.fail("a residual is asked for but input 3 is absent");
  if (ctx.dtype(3) != dtype) ctx.fail("the residual is of another element type than the output");
  const ir::Shape* residual = ctx.shape(3);
  if (!residual || !output) return;
  bool same = residual->size() == output->size();
  for (size_t axis = 0; same && axis < output->size(); ++axis) {
    const ir::Dim& a = (*residual)[axis];
    const ir::Dim& b = (*output)[axis];
    same = !(a.is_constant() && b.is_constant()) || a == b;
  }
  if (!same) ctx.fail("the residual is " + ir::str(*residual) + " where the output is " + ir::str(*output));
}

}  // namespace tenon::ops

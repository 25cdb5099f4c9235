// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <stdexcept>
#include <string>

#include "ops/expression.h"
#include "ops/expression_list.h"
#include "ops/layout.h"
#include "ops/op.h"

/// What Conv, MatMul and Gemm do to their result before storing it: internal attributes "activation", the word of an
/// expression, with its parameters as floats "alpha" and "beta", and "residual" = "before" or "after" (the activation),
/// which adds a tensor of the output's shape given as input 3. PRelu and Max have "slopes", one by output channel.
/// Normalisations of groups take an activation.
namespace tenon::ops {

enum class Residual { none, before, after };

struct Epilogue {
  expr::Id activation = expr::Id::Identity;
  Residual residual = Residual::none;
  float alpha = 0, beta = 0;  // the activation's parameters
  std::span<const float> slopes = {};  // of PRelu and Max, in the node
  bool empty() const { return activation == expr::Id::Identity && residual == Residual::none; }
};

inline AttributeDefs activation_attributes() {
  return {attr::text("activation").internal(), attr::real("alpha").internal(), attr::real("beta").internal()};
}
inline AttributeDefs epilogue_attributes() {
  return activation_attributes() +
         AttributeDefs{attr::text("residual").one_of({"before", "after"}).internal(), attr::reals("slopes").internal()};
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
  const ir::Node& node = ctx.node();
  Epilogue epilogue;
  if (const std::string word = node.text("activation", ""); !word.empty()) {
    const Expression* found = find_expression(word);
    if (!found || !found->is_epilogue) ctx.fail("activation \"" + word + "\" is not known");
    epilogue.activation = found->id;
    const expr::Parameters& parameters = found->parameters;
    if (parameters.count > 0) epilogue.alpha = node.real("alpha", parameters.list[0].otherwise);
    if (parameters.count > 1) epilogue.beta = node.real("beta", parameters.list[1].otherwise);
    const auto slopes = node.attributes.find("slopes");
    if (slopes != node.attributes.end() && found->operands == 2)
      if (const auto* list = std::get_if<std::vector<float>>(&slopes->second)) epilogue.slopes = *list;
    if (epilogue.slopes.empty() && found->operands == 2) ctx.fail("activation \"" + word + "\" has no slopes");
  }
  const std::string place = node.text("residual", "");
  if (place == "before") epilogue.residual = Residual::before;
  else if (place == "after") epilogue.residual = Residual::after;
  else if (!place.empty()) ctx.fail("residual is \"" + place + "\"");
  return epilogue;
}

/// That of a node which read_epilogue() took.
inline Epilogue epilogue_of(const ir::Node& node) {
  struct Context {
    const ir::Node& node_;
    const ir::Node& node() const { return node_; }
    [[noreturn]] void fail(const std::string& why) const { throw std::logic_error(why); }
  } context{node};
  return read_epilogue(context);
}

/// The activation at work on values of T, float or double, of an output channel.
template <class T>
T activate(const Epilogue& epilogue, T x, int64_t channel) {
  const T alpha =
      epilogue.slopes.empty() ? epilogue.alpha : epilogue.slopes[static_cast<size_t>(channel) % epilogue.slopes.size()];
  const T beta = epilogue.beta;
  switch (epilogue.activation) {
#define TENON_ACTIVATE(name, file)                                                         \
  case expr::Id::name:                                                                     \
    if constexpr (expr::name::is_epilogue) return expr::apply<expr::name>(x, alpha, beta); \
    break;
    TENON_EXPRESSIONS(TENON_ACTIVATE)
#undef TENON_ACTIVATE
  }
  return x;
}

/// The internal attribute output_dtype: the result is of another floating type than the input.
template <class Context>
DType output_type(Context& ctx, DType input) {
  const auto type = static_cast<DType>(ctx.node().integer("output_dtype", static_cast<int64_t>(input)));
  if (ctx.node().has("output_dtype") && !is_float(type)) ctx.fail("output_dtype is no floating type");
  return type;
}

/// Type of what a convolution of bytes gives unquantised: output_dtype, f32 where it says nothing.
template <class Context>
DType real_type(Context& ctx) {
  const auto type = static_cast<DType>(ctx.node().integer("output_dtype", static_cast<int64_t>(DType::f32)));
  if (type != DType::f32 && type != DType::f16) ctx.fail("output_dtype is neither f32 nor f16");
  return type;
}

/// In place on an element of an output channel; `residual` counts only where the epilogue has one.
template <class T>
void apply(const Epilogue& epilogue, T& value, T residual, int64_t channel) {
  if (epilogue.residual == Residual::before) value += residual;
  value = activate(epilogue, value, channel);
  if (epilogue.residual == Residual::after) value += residual;
}
/// The same for `count` elements, channels first; a channel of an image has `plane`. `residual` is read only where the
/// epilogue has one.
template <class T>
void apply(const Epilogue& epilogue, T* values, const T* residual, int64_t count, int64_t channels, int64_t plane) {
  if (epilogue.empty()) return;
  const bool adds = epilogue.residual != Residual::none;
  for (int64_t i = 0; i < count; ++i) apply(epilogue, values[i], adds ? residual[i] : T{}, i / plane % channels);
}

/// Checks during inference that there is a slope for each output channel, where there are slopes.
inline void check_slopes(Inference& ctx, const Epilogue& epilogue, const ir::Dim& channels) {
  const auto count = static_cast<int64_t>(epilogue.slopes.size());
  if (count && channels.is_constant() && channels.value() != count)
    ctx.fail("has " + std::to_string(count) + " slopes for " + channels.str() + " output channels");
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

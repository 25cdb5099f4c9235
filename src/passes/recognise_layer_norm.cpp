// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// A normalisation as its parts: (x - mean(x)) / sqrt(variance(x) + epsilon) * scale + bias where it is centred,
/// x / sqrt(mean(x * x) + epsilon) * scale otherwise.
struct Norm {
  ir::ValueId x = ir::no_value;
  std::vector<size_t> axes;  // ascending
  bool centred = false;
  double epsilon = 0;
  Tensor scale, bias;  // of the axes; empty: none
  std::vector<std::string> origins;
};

/// How exporters spell it: with the mean of squared distances (PyTorch) or of squares (JAX), divided or multiplied by
/// the inverse, which the scale may have joined before (TensorFlow). Casts that a graph in f32 does not need are gone
/// before.
class NormMatcher {
 public:
  NormMatcher(const ir::Graph& graph, const ir::Node& last) : graph_(graph), last_(last) {
    norm_.origins = last.origins;
  }

  /// `last` adds the bias.
  std::optional<Norm> biased() {
    if (last_.op != "Add") return std::nullopt;
    for (size_t side = 0; side < 2; ++side) {
      if (graph_.constant(last_.inputs[side])) {
        const ir::Node* mul = note(sole(graph_, last_.inputs[1 - side], "Mul"));
        if (mul && is_scaled(*mul) && take(last_.inputs[side], norm_.bias)) return norm_;
      } else if (is_shifted(last_.inputs[side], last_.inputs[1 - side])) {
        return norm_;
      }
      reset();
    }
    return std::nullopt;
  }
  /// `last` scales it.
  std::optional<Norm> scaled() { return last_.op == "Mul" && is_scaled(last_) ? std::optional(norm_) : std::nullopt; }
  /// `last` is what others may scale.
  std::optional<Norm> bare() { return is_normalised(last_) ? std::optional(norm_) : std::nullopt; }

 private:
  const ir::Node* note(const ir::Node* node) {
    if (node) norm_.origins = joined(node->origins, norm_.origins);
    return node;
  }
  void reset() { norm_ = {.origins = last_.origins}; }

  /// The value behind reshapes that only add or drop axes of one element.
  ir::ValueId through(ir::ValueId id) const {
    for (const char* op : {"Reshape", "Unsqueeze", "Expand"})
      if (const ir::Node* node = made_by(graph_, id, op)) {
        const ir::Shape *from = shape_of(graph_, node->inputs[0]), *to = shape_of(graph_, id);
        return from && to && long_axes(*from) == long_axes(*to) ? through(node->inputs[0]) : id;
      }
    return id;
  }
  static ir::Shape long_axes(const ir::Shape& shape) {
    ir::Shape result;
    for (const ir::Dim& dim : shape)
      if (!(dim == ir::Dim(1))) result.push_back(dim);
    return result;
  }

  /// A constant for the elements of the axes.
  bool take(ir::ValueId id, Tensor& to) const {
    const Tensor* tensor = graph_.constant(id);
    const ir::Shape& x = *shape_of(graph_, norm_.x);
    if (!tensor || tensor->dtype() != DType::f32 || tensor->dims().rank() > x.size()) return false;
    const size_t before = x.size() - tensor->dims().rank();
    Dims sizes;
    for (size_t axis = 0; axis < x.size(); ++axis) {
      const bool inside = std::find(norm_.axes.begin(), norm_.axes.end(), axis) != norm_.axes.end();
      const int64_t size = axis < before ? 1 : tensor->dims()[axis - before];
      if (inside ? !(x[axis] == ir::Dim(size)) : size != 1) return false;
      if (inside) sizes.push_back(size);
    }
    to = tensor->reshaped(sizes);
    return true;
  }

  bool is_scaled(const ir::Node& mul) {
    const std::vector<std::string> before = norm_.origins;
    for (size_t side = 0; side < 2; ++side) {
      const ir::ValueId one = mul.inputs[side], other = mul.inputs[1 - side];
      if (graph_.constant(one)) {
        const ir::Node* node = made_by(graph_, other, "Div");
        if (!node) node = made_by(graph_, other, "Mul");
        if (note(node) && is_normalised(*node) && take(one, norm_.scale)) return true;
      } else if (is_factor(one) && is_numerator(other)) {
        return true;
      }
      norm_.origins = before;
    }
    return false;
  }
  /// x * f + (bias - mean * f), where f is the inverse with its scale.
  bool is_shifted(ir::ValueId product, ir::ValueId shift) {
    const ir::Node *mul = note(sole(graph_, product, "Mul")), *sub = note(sole(graph_, shift, "Sub"));
    const ir::Node* means = sub ? note(sole(graph_, sub->inputs[1], "Mul")) : nullptr;
    for (size_t side = 0; mul && means && side < 2; ++side)
      for (size_t mean = 0; mean < 2; ++mean)
        if (mul->inputs[side] == means->inputs[1 - mean] && is_factor(mul->inputs[side]) && norm_.centred &&
            mul->inputs[1 - side] == norm_.x && is_mean(means->inputs[mean]) && take(sub->inputs[0], norm_.bias))
          return true;
    return false;
  }
  /// The inverse times the scale.
  bool is_factor(ir::ValueId id) {
    const ir::Node* mul = note(made_by(graph_, id, "Mul"));
    for (size_t side = 0; mul && side < 2; ++side)
      if (graph_.constant(mul->inputs[side]) && is_inverse(mul->inputs[1 - side]) &&
          take(mul->inputs[side], norm_.scale))
        return true;
    return false;
  }
  bool is_normalised(const ir::Node& node) {
    if (node.op == "Div")
      return is_root(node.inputs[1]) && is_statistic(node.inputs[1]) && is_numerator(node.inputs[0]);
    for (size_t side = 0; node.op == "Mul" && side < 2; ++side)
      if (is_inverse(node.inputs[side])) return is_numerator(node.inputs[1 - side]);
    return false;
  }
  bool is_numerator(ir::ValueId id) {
    if (!norm_.centred) return id == norm_.x;
    const ir::Node* sub = note(made_by(graph_, id, "Sub"));
    return sub && sub->inputs[0] == norm_.x && is_mean(sub->inputs[1]);
  }
  bool is_inverse(ir::ValueId id) {
    const ir::ValueId value = through(id);
    const ir::Node* node = made_by(graph_, value, "Reciprocal");
    if (node) return note(node), is_root(node->inputs[0]) && is_statistic(id);
    if ((node = made_by(graph_, value, "Div")))
      return note(node), is_scalar(graph_, node->inputs[0], 1) && is_root(node->inputs[1]) && is_statistic(id);
    node = note(made_by(graph_, value, "Pow"));
    return node && is_scalar(graph_, node->inputs[1], -0.5) && is_widened(node->inputs[0]) && is_statistic(id);
  }
  bool is_root(ir::ValueId id) {
    const ir::ValueId value = through(id);
    if (const ir::Node* node = note(made_by(graph_, value, "Sqrt"))) return is_widened(node->inputs[0]);
    const ir::Node* power = note(made_by(graph_, value, "Pow"));
    return power && is_scalar(graph_, power->inputs[1], 0.5) && is_widened(power->inputs[0]);
  }
  /// The variance and epsilon.
  bool is_widened(ir::ValueId id) {
    const ir::Node* add = note(made_by(graph_, through(id), "Add"));
    for (size_t side = 0; add && side < 2; ++side)
      if (const auto number = scalar(graph_, add->inputs[side]); number && is_variance(add->inputs[1 - side])) {
        norm_.epsilon = *number;
        return true;
      }
    return false;
  }
  /// What a floor of 0 is put under, as a difference of squares may round below it.
  ir::ValueId positive(ir::ValueId id) {
    if (const ir::Node* relu = note(made_by(graph_, id, "Relu"))) return through(relu->inputs[0]);
    const ir::Node* clip = made_by(graph_, id, "Clip");
    const bool floor = clip && clip->inputs.size() == 2 && scalar(graph_, clip->inputs[1]) == 0.0;
    return floor ? through(note(clip)->inputs[0]) : id;
  }
  bool is_variance(ir::ValueId id) {
    const ir::ValueId value = positive(through(id));
    if (const ir::Node* mean = note(made_by(graph_, value, "ReduceMean"))) {
      const ir::ValueId base = squared(mean->inputs[0]);
      if (base == ir::no_value || !take_axes(*mean)) return false;
      norm_.x = base;
      const ir::Node* sub = made_by(graph_, base, "Sub");
      if (!sub || !is_mean_of(sub->inputs[1], sub->inputs[0])) return true;
      note(sub);
      norm_.x = sub->inputs[0];
      return norm_.centred = true;
    }
    const ir::Node* sub = note(made_by(graph_, value, "Sub"));
    const ir::Node* mean = sub ? note(made_by(graph_, through(sub->inputs[0]), "ReduceMean")) : nullptr;
    if (!mean || !same_shape(graph_, sub->inputs[0], sub->inputs[1]) || !take_axes(*mean)) return false;
    norm_.x = squared(mean->inputs[0]);
    const ir::ValueId centre = squared(sub->inputs[1]);
    return norm_.centred = norm_.x != ir::no_value && centre != ir::no_value && is_mean_of(centre, norm_.x);
  }
  /// What is squared; no_value: nothing.
  ir::ValueId squared(ir::ValueId id) {
    const ir::Node* node = made_by(graph_, through(id), "Pow");
    if (node && is_scalar(graph_, node->inputs[1], 2)) return note(node)->inputs[0];
    node = made_by(graph_, through(id), "Mul");
    return node && node->inputs[0] == node->inputs[1] ? note(node)->inputs[0] : ir::no_value;
  }
  bool take_axes(const ir::Node& mean) {
    const auto axes = axes_of(mean);
    if (axes) norm_.axes = *axes;
    return axes.has_value();
  }
  std::optional<std::vector<size_t>> axes_of(const ir::Node& mean) const {
    const auto rank = rank_of(graph_, mean.inputs[0]);
    const auto list = mean.inputs.size() > 1 ? integers(graph_, mean.inputs[1]) : std::nullopt;
    if (!rank || !list || list->empty()) return std::nullopt;
    std::vector<size_t> axes;
    for (int64_t axis : *list)
      if (const auto at = axis_of(axis, *rank)) axes.push_back(*at);
      else return std::nullopt;
    std::sort(axes.begin(), axes.end());
    return axes;
  }
  /// Whether it is the mean of x along the axes, in whichever shape.
  bool is_mean_of(ir::ValueId id, ir::ValueId x) {
    const ir::Node* mean = made_by(graph_, through(id), "ReduceMean");
    if (!mean || mean->inputs[0] != x || axes_of(*mean) != norm_.axes) return false;
    return note(mean), true;
  }
  /// A mean that x can be shifted by.
  bool is_mean(ir::ValueId id) { return is_mean_of(id, norm_.x) && is_statistic(id); }
  /// Whether it has a number for all but the axes of x.
  bool is_statistic(ir::ValueId id) const {
    const ir::Shape *shape = shape_of(graph_, id), *x = shape_of(graph_, norm_.x);
    if (!shape || !x || shape->size() != x->size()) return false;
    for (size_t axis = 0; axis < x->size(); ++axis) {
      const bool inside = std::find(norm_.axes.begin(), norm_.axes.end(), axis) != norm_.axes.end();
      if (!((*shape)[axis] == (inside ? ir::Dim(1) : (*x)[axis]))) return false;
    }
    return true;
  }

  const ir::Graph& graph_;
  const ir::Node& last_;
  Norm norm_;
};

Perm moved_last(size_t axis, size_t rank) {
  Perm perm;
  for (size_t at = 0; at < rank; ++at)
    if (at != axis) perm.push_back(static_cast<int64_t>(at));
  perm.push_back(static_cast<int64_t>(axis));
  return perm;
}

/// Along the last axes, as the op is; another axis is transposed to the end.
bool replace_by(ir::Graph& graph, ir::NodeId id, Norm norm) {
  const ir::ValueId y = graph.node(id).outputs[0];
  if (!same_shape(graph, norm.x, y) || graph.value(norm.x).dtype != DType::f32) return false;
  const ir::Shape shape = *shape_of(graph, norm.x);
  const size_t rank = shape.size(), count = norm.axes.size();
  const bool last = norm.axes.back() - norm.axes.front() + 1 == count && norm.axes.back() + 1 == rank;
  if (!last && count > 1) return false;
  Dims sizes;
  for (const size_t axis : norm.axes) {
    if (!shape[axis].is_constant()) return false;
    sizes.push_back(shape[axis].value());
  }
  const std::string name = graph.value(y).name;
  if (!norm.scale) norm.scale = Tensor(DType::f32, sizes), std::fill_n(norm.scale.data<float>(), sizes.elements(), 1.f);
  std::vector<ir::ValueId> inputs = {norm.x, graph.add_constant(name + ".scale", norm.scale)};
  if (norm.bias) inputs.push_back(graph.add_constant(name + ".bias", norm.bias));
  const Perm perm = last ? Perm() : moved_last(norm.axes[0], rank);
  if (!last) inputs[0] = graph.apply("Transpose", {norm.x}, {{"perm", perm}}, norm.origins, name);
  const char* op = norm.centred ? "LayerNormalization" : "RMSNormalization";
  ir::ValueId result =
      graph.apply(op, inputs, {{"axis", -static_cast<int64_t>(count)}, {"epsilon", static_cast<float>(norm.epsilon)}},
                  norm.origins, name);
  if (!last) result = graph.apply("Transpose", {result}, {{"perm", inverse(perm)}}, norm.origins, name);
  replace(graph, id, result);
  return true;
}

}  // namespace

bool recognise_layer_norm(ir::Graph& graph) {
  bool changed = false;
  // From the widest spelling on, as the others are parts of it.
  for (auto match : {&NormMatcher::biased, &NormMatcher::scaled, &NormMatcher::bare})
    changed |= each_node(graph, [&](ir::NodeId id) {
      const ir::Node& node = graph.node(id);
      if (node.outputs.size() != 1 || graph.value(node.outputs[0]).dtype != DType::f32) return false;
      auto norm = (NormMatcher(graph, node).*match)();
      // RMSNormalization has no bias; its scaled form is found next.
      return norm && (norm->centred || !norm->bias) && replace_by(graph, id, std::move(*norm));
    });
  return changed;
}

}  // namespace tenon::passes

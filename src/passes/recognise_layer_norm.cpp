// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int64_t most_elements = 16384;  // of a row of LayerNormalization that all backends take

/// A normalisation as its parts: (x - mean(x)) / sqrt(variance(x) + epsilon) * scale + bias where it is centred,
/// x / sqrt(mean(x * x) + epsilon) * scale otherwise; the scale is one of elements, or of channels where the axes are
/// all behind them.
struct Norm {
  ir::ValueId x = ir::no_value;
  std::vector<size_t> axes;  // ascending
  bool centred = false;
  double epsilon = 0;
  bool summed = false;  // sum(x * x) is in the place of the mean
  Tensor scale, bias;   // of the axes; empty: none

  /// Whether it is along all axes behind the channels.
  bool is_of_maps(size_t rank) const { return centred && rank > 3 && axes.front() == 2 && axes.size() + 2 == rank; }
  /// Whether it is along all axes but those of images and of groups of channels, which are the last two.
  bool is_of_groups(size_t rank) const {
    return centred && rank > 3 && axes.size() + 2 == rank && axes[0] == 1 && axes[rank - 4] == rank - 3 &&
           axes[rank - 3] == rank - 1;
  }
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

  bool is_inside(size_t axis) const {
    return std::find(norm_.axes.begin(), norm_.axes.end(), axis) != norm_.axes.end();
  }
  /// A constant for the elements of the axes.
  bool take(ir::ValueId id, Tensor& to) const {
    const Tensor* tensor = graph_.constant(id);
    const ir::Shape& x = *shape_of(graph_, norm_.x);
    if (!tensor || tensor->dtype() != DType::f32 || tensor->dims().rank() > x.size()) return false;
    const size_t before = x.size() - tensor->dims().rank();
    Dims sizes;
    for (size_t axis = 0; axis < x.size(); ++axis) {
      const bool inside = norm_.is_of_maps(x.size())     ? axis == 1
                          : norm_.is_of_groups(x.size()) ? axis + 2 >= x.size()
                                                         : is_inside(axis);
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
        const ir::Node* node = sole(graph_, other, "Div");
        if (!node) node = sole(graph_, other, "Mul");
        if (note(node) && is_normalised(*node) && take(one, norm_.scale)) return true;
      } else if (is_factor(one) && is_numerator(other)) {
        return true;
      } else if (is_inverse(one) && !norm_.centred && is_product(other)) {
        return true;
      }
      norm_.origins = before;
    }
    return false;
  }
  /// x times the scale.
  bool is_product(ir::ValueId id) {
    const ir::Node* mul = note(sole(graph_, id, "Mul"));
    for (size_t side = 0; mul && side < 2; ++side)
      if (mul->inputs[side] == norm_.x && take(mul->inputs[1 - side], norm_.scale)) return true;
    return false;
  }
  /// x * f + (bias - mean * f) or x * f + (-mean * f + bias), where f is the inverse with its scale.
  bool is_shifted(ir::ValueId product, ir::ValueId shift) {
    const ir::Node *mul = note(sole(graph_, product, "Mul")), *sub = note(sole(graph_, shift, "Sub"));
    const ir::Node* add = sub ? nullptr : note(sole(graph_, shift, "Add"));
    if (!mul || (!sub && !add)) return false;
    const size_t at = add && graph_.constant(add->inputs[1]) ? 1 : 0;  // of the bias
    const ir::Node* outer = sub ? sub : add;
    const ir::Node* means = note(sole(graph_, outer->inputs[1 - at], "Mul"));
    for (size_t side = 0; means && side < 2; ++side)
      for (size_t mean = 0; mean < 2; ++mean)
        if (mul->inputs[side] == means->inputs[1 - mean] && is_factor(mul->inputs[side]) && norm_.centred &&
            mul->inputs[1 - side] == norm_.x &&
            (sub ? is_mean(means->inputs[mean]) : is_negated(means->inputs[mean])) &&
            take(outer->inputs[at], norm_.bias))
          return true;
    return false;
  }
  bool is_negated(ir::ValueId mean) {
    const ir::Node* neg = note(made_by(graph_, mean, "Neg"));
    return neg && is_mean(neg->inputs[0]);
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
    const ir::ValueId value = behind_ones(graph_, id);
    const ir::Node* node = made_by(graph_, value, "Reciprocal");
    if (node) return note(node), is_root(node->inputs[0]) && is_statistic(id);
    if ((node = made_by(graph_, value, "Div")))
      return note(node), is_scalar(graph_, node->inputs[0], 1) && is_root(node->inputs[1]) && is_statistic(id);
    node = note(made_by(graph_, value, "Pow"));
    return node && is_scalar(graph_, node->inputs[1], -0.5) && is_widened(node->inputs[0]) && is_statistic(id);
  }
  bool is_root(ir::ValueId id) {
    const ir::ValueId value = behind_ones(graph_, id);
    if (const ir::Node* node = note(made_by(graph_, value, "Sqrt"))) return is_widened(node->inputs[0]);
    const ir::Node* power = note(made_by(graph_, value, "Pow"));
    return power && is_scalar(graph_, power->inputs[1], 0.5) && is_widened(power->inputs[0]);
  }
  /// The variance and epsilon.
  bool is_widened(ir::ValueId id) {
    const ir::Node* add = note(made_by(graph_, behind_ones(graph_, id), "Add"));
    for (size_t side = 0; add && side < 2; ++side)
      if (const auto number = scalar(graph_, add->inputs[side]); number && is_variance(add->inputs[1 - side])) {
        norm_.epsilon = *number;
        return true;
      }
    return false;
  }
  /// What a floor of 0 is put under, as a difference of squares may round below it.
  ir::ValueId positive(ir::ValueId id) {
    if (const ir::Node* relu = note(made_by(graph_, id, "Relu"))) return behind_ones(graph_, relu->inputs[0]);
    const ir::Node* clip = made_by(graph_, id, "Clip");
    const bool floor = clip && clip->inputs.size() == 2 && scalar(graph_, clip->inputs[1]) == 0.0;
    return floor ? behind_ones(graph_, note(clip)->inputs[0]) : id;
  }
  bool is_variance(ir::ValueId id) {
    const ir::ValueId value = positive(behind_ones(graph_, id));
    const ir::Node* mean = mean_at(value);
    norm_.centred = false;  // what another attempt saw
    norm_.summed = !mean;
    if (!mean) mean = made_by(graph_, value, "ReduceSum");
    if (note(mean)) {
      const ir::ValueId base = squared(mean->inputs[0]);
      if (base == ir::no_value || !take_axes(*mean)) return false;
      norm_.x = base;
      const ir::Node* sub = made_by(graph_, base, "Sub");
      if (!sub || norm_.summed || !is_mean_of(sub->inputs[1], sub->inputs[0])) return true;
      note(sub);
      norm_.x = sub->inputs[0];
      return norm_.centred = true;
    }
    const ir::Node* sub = note(made_by(graph_, value, "Sub"));
    mean = sub ? note(mean_at(behind_ones(graph_, sub->inputs[0]))) : nullptr;
    if (!mean || !same_shape(graph_, sub->inputs[0], sub->inputs[1]) || !take_axes(*mean)) return false;
    norm_.x = squared(mean->inputs[0]);
    norm_.summed = false;
    const ir::ValueId centre = squared(sub->inputs[1]);
    return norm_.centred = norm_.x != ir::no_value && centre != ir::no_value && is_mean_of(centre, norm_.x);
  }
  const ir::Node* mean_at(ir::ValueId id) const {
    const ir::Node* mean = made_by(graph_, id, "ReduceMean");
    return mean ? mean : made_by(graph_, id, "GlobalAveragePool");
  }
  /// What is squared; no_value: nothing.
  ir::ValueId squared(ir::ValueId id) {
    const ir::Node* node = made_by(graph_, behind_ones(graph_, id), "Pow");
    if (node && is_scalar(graph_, node->inputs[1], 2)) return note(node)->inputs[0];
    node = made_by(graph_, behind_ones(graph_, id), "Mul");
    return node && node->inputs[0] == node->inputs[1] ? note(node)->inputs[0] : ir::no_value;
  }
  bool take_axes(const ir::Node& mean) {
    const auto axes = axes_of(mean);
    if (axes) norm_.axes = *axes;
    return axes.has_value();
  }
  std::optional<std::vector<size_t>> axes_of(const ir::Node& mean) const {
    const auto rank = rank_of(graph_, mean.inputs[0]);
    std::vector<size_t> axes;
    if (mean.op == "GlobalAveragePool") {
      for (size_t axis = 2; rank && axis < *rank; ++axis) axes.push_back(axis);
      return axes.empty() ? std::nullopt : std::optional(axes);
    }
    const auto list = mean.inputs.size() > 1 ? integers(graph_, mean.inputs[1]) : std::nullopt;
    if (!rank || !list || list->empty()) return std::nullopt;
    for (int64_t axis : *list)
      if (const auto at = axis_of(axis, *rank)) axes.push_back(*at);
      else return std::nullopt;
    std::sort(axes.begin(), axes.end());
    return axes;
  }
  /// Whether it is the mean of x along the axes, in whichever shape.
  bool is_mean_of(ir::ValueId id, ir::ValueId x) {
    const ir::Node* mean = mean_at(behind_ones(graph_, id));
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
      if (!((*shape)[axis] == (is_inside(axis) ? ir::Dim(1) : (*x)[axis]))) return false;
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

Tensor filled(const Dims& dims, float number) {
  Tensor tensor(DType::f32, dims);
  std::fill_n(tensor.data<float>(), dims.elements(), number);
  return tensor;
}

/// Along all axes behind the channels it is InstanceNormalization.
ir::ValueId of_maps(ir::Graph& graph, const Norm& norm, int64_t channels, const std::string& name) {
  const auto list = [&](const Tensor& given, float otherwise, const char* what) {
    return graph.add_constant(name + what, given ? given : filled({channels}, otherwise));
  };
  return graph.apply("InstanceNormalization", {norm.x, list(norm.scale, 1, ".scale"), list(norm.bias, 0, ".bias")},
                     {{"epsilon", static_cast<float>(norm.epsilon)}}, norm.origins, name);
}

/// Of groups of channels, which a Reshape took apart, it is GroupNormalization with the channels before the maps.
std::optional<ir::ValueId> of_groups(ir::Graph& graph, const Norm& norm, const std::string& name) {
  const ir::Shape shape = *shape_of(graph, norm.x);
  const size_t rank = shape.size();
  const ir::Node* apart = made_by(graph, norm.x, "Reshape");
  const ir::Shape* from = apart ? shape_of(graph, apart->inputs[0]) : nullptr;
  if (!from || from->size() + 1 != rank || !std::equal(from->begin(), from->end() - 1, shape.begin())) return {};
  const ir::Dim channels = from->back();
  const auto target = reshape_target(*from, shape);
  if (!channels.is_constant() || !shape[rank - 2].is_constant() || !target) return {};
  const auto list = [&](const Tensor& given, float otherwise, const char* what) {
    const Dims dims{channels.value()};
    return graph.add_constant(name + what, given ? given.reshaped(dims) : filled(dims, otherwise));
  };
  Perm perm{0, static_cast<int64_t>(rank) - 2};
  for (size_t axis = 1; axis + 2 < rank; ++axis) perm.push_back(static_cast<int64_t>(axis));
  const auto transposed = [&](ir::ValueId value, const Perm& by) {
    return graph.apply("Transpose", {value}, {{"perm", by}}, norm.origins, name);
  };
  const ir::ValueId x = transposed(apart->inputs[0], perm);
  const ir::ValueId y = graph.apply(
      "GroupNormalization", {x, list(norm.scale, 1, ".scale"), list(norm.bias, 0, ".bias")},
      {{"epsilon", static_cast<float>(norm.epsilon)}, {"num_groups", shape[rank - 2].value()}}, norm.origins, name);
  return graph.apply("Reshape", {transposed(y, inverse(perm)), constant(graph, name + ".groups", *target)}, {},
                     norm.origins, name);
}

/// Along the last axes, as the ops are; another axis is transposed to the end.
ir::ValueId of_rows(ir::Graph& graph, Norm norm, const Dims& sizes, bool last, const std::string& name) {
  const size_t rank = shape_of(graph, norm.x)->size();
  if (!norm.scale) norm.scale = filled(sizes, 1);
  if (norm.summed) {
    // sqrt(sum + epsilon) is sqrt(n) sqrt(mean + epsilon / n).
    const auto count = static_cast<double>(sizes.elements());
    norm.epsilon /= count;
    norm.scale = norm.scale.copy();
    for (int64_t at = 0; at < sizes.elements(); ++at)
      norm.scale.data<float>()[at] /= static_cast<float>(std::sqrt(count));
  }
  std::vector<ir::ValueId> inputs = {norm.x, graph.add_constant(name + ".scale", norm.scale)};
  if (norm.bias) inputs.push_back(graph.add_constant(name + ".bias", norm.bias));
  const Perm perm = last ? Perm() : moved_last(norm.axes[0], rank);
  if (!last) inputs[0] = graph.apply("Transpose", {norm.x}, {{"perm", perm}}, norm.origins, name);
  const ir::Attributes attributes{{"axis", -static_cast<int64_t>(sizes.rank())},
                                  {"epsilon", static_cast<float>(norm.epsilon)}};
  const char* op = norm.centred ? "LayerNormalization" : "RMSNormalization";
  const ir::ValueId y = graph.apply(op, inputs, attributes, norm.origins, name);
  return last ? y : graph.apply("Transpose", {y}, {{"perm", inverse(perm)}}, norm.origins, name);
}

bool replace_by(ir::Graph& graph, ir::NodeId id, const Norm& norm) {
  const ir::ValueId y = graph.node(id).outputs[0];
  if (!same_shape(graph, norm.x, y) || graph.value(norm.x).dtype != DType::f32) return false;
  const ir::Shape& shape = *shape_of(graph, norm.x);
  const size_t rank = shape.size(), count = norm.axes.size();
  const std::string name = graph.value(y).name;
  if (norm.is_of_maps(rank)) {
    if (!shape[1].is_constant()) return false;
    replace(graph, id, of_maps(graph, norm, shape[1].value(), name));
    return true;
  }
  if (norm.is_of_groups(rank)) {
    const auto groups = of_groups(graph, norm, name);
    if (groups) replace(graph, id, *groups);
    return groups.has_value();
  }
  const bool last = norm.axes.back() - norm.axes.front() + 1 == count && norm.axes.back() + 1 == rank;
  if (count > 1 && (!last || !norm.scale)) return false;
  Dims sizes;
  for (const size_t axis : norm.axes) {
    if (!shape[axis].is_constant()) return false;
    sizes.push_back(shape[axis].value());
  }
  if (sizes.elements() > most_elements) return false;
  replace(graph, id, of_rows(graph, norm, sizes, last, name));
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

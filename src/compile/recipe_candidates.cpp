// SPDX-License-Identifier: Apache-2.0
#include "compile/recipe_candidates.h"

#include "quant/materialise.h"

namespace tenon::compile {

namespace {
constexpr size_t most_tried = 16;

/// The shortest axis behind the first where there are several; -1 for none.
int feature_axis(const Dims& dims) {
  constexpr int64_t most_features = 512;
  if (dims.rank() < 3) return -1;
  size_t best = 1;
  for (size_t axis = 2; axis < dims.rank(); ++axis)
    if (dims[axis] > 1 && (dims[axis] < dims[best] || dims[best] == 1)) best = axis;
  return dims[best] > 1 && dims[best] <= most_features ? static_cast<int>(best) : -1;
}

struct Moments {
  double sum = 0, squares = 0, mean = 0, scale = 0;
  bool is_score = true;  // within 0..1
};

/// Scores share one scale: what is lost of a class that is nowhere in the image matters no more than of one that is.
void share_scale(std::vector<Moments>& moments) {
  double sum = 0, scores = 0;
  for (const Moments& m : moments)
    if (m.is_score) sum += m.scale, ++scores;
  for (Moments& m : moments)
    if (m.is_score) m.scale = sum / scores;
}

constexpr double of_no_number = 100;  // variances, where a number is lost to infinity or is none

double error_of(const Tensor& exact, const Tensor& rounded) {
  const int axis = feature_axis(exact.dims());
  int64_t inner = 1, features = 1;
  if (axis >= 0) {
    features = exact.dims()[static_cast<size_t>(axis)];
    for (size_t at = static_cast<size_t>(axis) + 1; at < exact.dims().rank(); ++at) inner *= exact.dims()[at];
  }
  const int64_t positions = exact.elements() / features;
  const float *x = exact.data<float>(), *y = rounded.data<float>();
  const auto index = [&](int64_t position, int64_t feature) {
    return (position / inner * features + feature) * inner + position % inner;
  };
  std::vector<Moments> moments(static_cast<size_t>(features));
  for (int64_t f = 0; f < features; ++f)
    for (int64_t p = 0; p < positions; ++p) {
      const double value = x[index(p, f)];
      moments[f].sum += value, moments[f].squares += value * value;
      moments[f].is_score = moments[f].is_score && value >= 0 && value <= 1;
    }
  for (Moments& m : moments) {
    const double n = static_cast<double>(positions), variance = m.squares / n - m.sum / n * (m.sum / n);
    m.mean = m.sum / n;
    // A feature that does not vary is measured against its size.
    m.scale = variance > 1e-9 * m.squares / n ? variance : m.squares / n;
  }
  if (features > 1) share_scale(moments);
  double total = 0, signal = 0;
  for (int64_t p = 0; p < positions; ++p) {
    double weight = features == 1 ? 1 : 0, wrong = 0, size = 0;
    for (int64_t f = 0; f < features; ++f) {
      const Moments& m = moments[f];
      if (!(m.scale > 0)) continue;
      const double value = x[index(p, f)], far = (value - m.mean) * (value - m.mean) / m.scale;
      if (features > 1) weight = std::max(weight, far * far);
      size += far;
      const double off = value - y[index(p, f)];
      // An error that is no number could not be compared with others, nor written.
      wrong += std::isfinite(off) ? off * off / m.scale : of_no_number;
    }
    total += weight * wrong;
    signal += weight * size;
  }
  return signal > 0 ? total / signal : 0;
}
}  // namespace

double output_error(const std::vector<Tensor>& exact, const std::vector<Tensor>& rounded) {
  double sum = 0;
  int floats = 0;
  for (size_t at = 0; at < exact.size(); ++at)
    if (exact[at].dtype() == DType::f32 && exact[at].elements() > 0) sum += error_of(exact[at], rounded[at]), ++floats;
  return floats ? sum / floats : 0;
}

RecipeCandidates::RecipeCandidates(const ir::Graph& graph, const quant::Recipe& recipe, const quant::Observations& seen,
                                   const Shapes& shapes, ThreadPool& thread_pool, const plan::Records& records)
    : seen_(seen), factors_(recipe.factors) {
  ir::Graph rounded = judged_graph(graph);
  quant::round_weights(rounded, recipe);
  observer_ = std::make_unique<ValueObserver>(std::move(rounded), shapes, thread_pool, records);
}

double RecipeCandidates::error(const std::map<std::string, quant::Quantiser>& values) {
  return error(values, most_tried);
}

double RecipeCandidates::error(const std::map<std::string, quant::Quantiser>& values, size_t probes) {
  observer_->forget();
  for (const auto& [name, quantiser] : values) {
    const auto factors = factors_.find(name);
    observer_->watch(name, {.round = &quantiser, .factors = factors == factors_.end() ? nullptr : &factors->second});
  }
  double sum = 0;
  probes = std::min(probes, seen_.probes.size());
  for (size_t at = 0; at < probes; ++at) {
    const quant::Observations::Probe& probe = seen_.probes[at * seen_.probes.size() / probes];
    sum += output_error(probe.outputs, observer_->run(probe.inputs));
  }
  return probes ? sum / static_cast<double>(probes) : 0;
}

}  // namespace tenon::compile

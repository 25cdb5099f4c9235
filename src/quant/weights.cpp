#include "quant/weights.h"

#include "base/check.h"

namespace tenon::quant {

WeightView weights_of(const ir::Graph& graph, const ir::Node& anchor) {
  const Tensor* tensor = graph.constant(anchor.inputs[1]);
  TENON_CHECK(tensor, anchor.label());
  const Dims& dims = tensor->dims();
  WeightView view{tensor->data<float>(), 0, 0, 0, 0, 0};
  if (anchor.op == "Conv") {
    view.rows = dims[0];
    view.inner = tensor->elements() / dims[0];
    view.row_stride = view.inner;
    view.inner_stride = 1;
    view.groups = anchor.integer("group", 1);
    view.taps = view.inner / dims[1];
  } else if (anchor.op == "Gemm" && anchor.integer("transB", 0)) {
    view.rows = dims[0], view.inner = dims[1], view.row_stride = dims[1], view.inner_stride = 1;
  } else {
    view.rows = dims[1], view.inner = dims[0], view.row_stride = 1, view.inner_stride = dims[1], view.axis = 1;
  }
  return view;
}

std::vector<float> weight_scales(const WeightView& weights, const std::vector<double>& importance) {
  std::vector<float> scales(static_cast<size_t>(weights.rows));
  std::vector<float> row(static_cast<size_t>(weights.inner));
  std::vector<double> weight_of(row.size(), 1);
  for (int64_t r = 0; r < weights.rows; ++r) {
    float largest = 0;
    for (int64_t i = 0; i < weights.inner; ++i) {
      row[i] = weights.at(r, i);
      largest = std::max(largest, std::fabs(row[i]));
      if (!importance.empty()) weight_of[i] = importance[weights.channel(r, i)];
    }
    float& best = scales[r];
    best = largest > 1e-30f ? largest / 127 : 1.f;
    if (!(largest > 1e-30f)) continue;
    double least = INFINITY;
    for (int step = 0; step <= 25; ++step) {
      const float scale = largest / 127 * (1 - 0.02f * static_cast<float>(step));
      double error = 0;
      for (size_t i = 0; i < row.size() && error < least; ++i) {
        const double wrong = row[i] - static_cast<float>(stored_weight(row[i], scale)) * scale;
        error += wrong * wrong * weight_of[i];
      }
      if (error < least) least = error, best = scale;
    }
  }
  return scales;
}

namespace {
template <class Out, class F>
Tensor map_weights(DType type, const Tensor& weights, const WeightView& view, const F& each) {
  Tensor result(type, weights.dims());
  for (int64_t r = 0; r < view.rows; ++r)
    for (int64_t i = 0; i < view.inner; ++i)
      result.data<Out>()[r * view.row_stride + i * view.inner_stride] = each(r, view.at(r, i));
  return result;
}
}  // namespace

Tensor store_weights(const Tensor& weights, const WeightView& view, const std::vector<float>& scales) {
  return map_weights<int8_t>(DType::i8, weights, view, [&](int64_t row, float weight) {
    return static_cast<int8_t>(stored_weight(weight, scales[row]));
  });
}

Tensor rounded_weights(const Tensor& weights, const WeightView& view, const std::vector<float>& scales) {
  return map_weights<float>(DType::f32, weights, view, [&](int64_t row, float weight) {
    return static_cast<float>(stored_weight(weight, scales[row])) * scales[row];
  });
}

}  // namespace tenon::quant

// SPDX-License-Identifier: Apache-2.0
#include "quant/weights.h"

#include <cmath>
#include <cstdlib>

#include "base/check.h"
#include "quant/structure.h"

namespace tenon::quant {

WeightView weights_of(const ir::Graph& graph, const ir::Node& anchor, const Factors& factors) {
  const Tensor* tensor = graph.constant(anchor.inputs[1]);
  TENON_CHECK(tensor, anchor.label());
  const Dims& dims = tensor->dims();
  WeightView view{tensor->data<float>(), 0, 0, 0, 0, 0};
  if (is_convolution(anchor)) {
    view.rows = dims[0];
    view.inner = tensor->elements() / dims[0];
    view.row_stride = view.inner;
    view.inner_stride = 1;
    view.groups = anchor.integer("group", 1);
    view.taps = view.inner / dims[1];
    const bool winograd = view.groups == 1 && dims.rank() == 4 && dims[2] == 3 && dims[3] == 3 &&
                          anchor.integers("strides", {1, 1}) == std::vector<int64_t>{1, 1} &&
                          anchor.integers("dilations", {1, 1}) == std::vector<int64_t>{1, 1};
    view.pairable = !winograd && dims[1] % 2 == 0;  // Winograd multiplies int16, and pairs end with kernel rows
  } else if (anchor.integer("transB", 0)) {
    view.rows = dims[0], view.inner = dims[1], view.row_stride = dims[1], view.inner_stride = 1;
  } else {
    view.rows = dims[1], view.inner = dims[0], view.row_stride = 1, view.inner_stride = dims[1], view.axis = 1;
  }
  if (const auto own = factors.find(graph.value(anchor.inputs[0]).name); own != factors.end()) {
    TENON_CHECK(static_cast<int64_t>(own->second.size()) == view.channels(), anchor.label());
    view.factors = own->second.data();
  }
  return view;
}

namespace {

int rounded(float weight, float scale) {
  return static_cast<int>(std::clamp(std::nearbyint(weight / scale), -127.f, 127.f));
}

/// Brings two stored weights to what store_row says of neighbours.
void limit_pair(int& a, int& b) {
  const int excess = std::abs(a + b) - 128;
  if (excess <= 0) return;  // weights of two signs differ by at most 254 and add up to less than 128
  const int sign = a + b > 0 ? 1 : -1;
  a -= sign * (excess / 2);
  b -= sign * (excess - excess / 2);
}

/// Where the k-th weight stands in a row, counting tap after tap.
int64_t place(const WeightView& view, int64_t k) {
  const int64_t channels = view.inner / view.taps;
  return k % channels * view.taps + k / channels;
}

}  // namespace

std::vector<int8_t> store_row(const WeightView& view, int64_t row, float scale, bool paired) {
  std::vector<int8_t> stored(static_cast<size_t>(view.inner));
  for (int64_t i = 0; i < view.inner; ++i) stored[i] = static_cast<int8_t>(rounded(view.at(row, i), scale));
  for (int64_t k = 0; paired && k + 1 < view.inner; k += 2) {
    int8_t &first = stored[place(view, k)], &second = stored[place(view, k + 1)];
    int a = first, b = second;
    limit_pair(a, b);
    first = static_cast<int8_t>(a), second = static_cast<int8_t>(b);
  }
  return stored;
}

bool are_paired(const WeightView& view, const std::vector<int8_t>& stored) {
  for (int64_t k = 0; k + 1 < view.inner; k += 2)
    if (std::abs(stored[place(view, k)] + stored[place(view, k + 1)]) > 128) return false;
  return true;
}

std::vector<int8_t> stored_row(const WeightView& view, int64_t row, const WeightQuantiser& how) {
  std::vector<int8_t> stored = store_row(view, row, how.scales[row], how.paired);
  if (how.changes.empty()) return stored;
  for (int64_t i = 0; i < view.inner; ++i)
    stored[i] = static_cast<int8_t>(stored[i] + how.changes[row * view.inner + i]);
  return stored;
}

std::vector<float> weight_scales(const WeightView& weights, const std::vector<double>& importance, bool paired) {
  std::vector<float> scales(static_cast<size_t>(weights.rows));
  std::vector<float> row(static_cast<size_t>(weights.inner + 1));  // tap after tap, and one more to make pairs
  std::vector<double> weight_of(row.size(), 1);
  for (int64_t r = 0; r < weights.rows; ++r) {
    float largest = 0;
    for (int64_t k = 0; k < weights.inner; ++k) {
      const int64_t i = place(weights, k);
      row[k] = weights.at(r, i);
      largest = std::max(largest, std::fabs(row[k]));
      if (!importance.empty()) weight_of[k] = importance[weights.channel(r, i)];
    }
    float& best = scales[r];
    best = largest > 1e-30f ? largest / 127 : 1.f;
    if (!(largest > 1e-30f)) continue;
    double least = INFINITY;
    for (int step = paired ? -50 : 0; step <= 25; ++step) {
      const float scale = largest / 127 * (1 - 0.02f * static_cast<float>(step));
      double error = 0;
      for (size_t k = 0; k + 1 < row.size() && error < least; k += 2) {
        int a = rounded(row[k], scale), b = rounded(row[k + 1], scale);
        if (paired) limit_pair(a, b);
        const double wrong_a = row[k] - static_cast<float>(a) * scale,
                     wrong_b = row[k + 1] - static_cast<float>(b) * scale;
        error += wrong_a * wrong_a * weight_of[k] + wrong_b * wrong_b * weight_of[k + 1];
      }
      if (error < least) least = error, best = scale;
    }
  }
  return scales;
}

namespace {

template <class Out, class F>
Tensor map_weights(DType type, const Tensor& weights, const WeightView& view, const WeightQuantiser& how,
                   const F& each) {
  Tensor result(type, weights.dims());
  for (int64_t r = 0; r < view.rows; ++r) {
    const std::vector<int8_t> row = stored_row(view, r, how);
    for (int64_t i = 0; i < view.inner; ++i)
      result.data<Out>()[r * view.row_stride + i * view.inner_stride] =
          each(row[i], view.factors ? how.scales[r] / view.factors[view.channel(r, i)] : how.scales[r]);
  }
  return result;
}

}  // namespace

Tensor store_weights(const Tensor& weights, const WeightView& view, const WeightQuantiser& how) {
  return map_weights<int8_t>(DType::i8, weights, view, how, [](int8_t stored, float) { return stored; });
}

Tensor rounded_weights(const Tensor& weights, const WeightView& view, const WeightQuantiser& how) {
  return map_weights<float>(DType::f32, weights, view, how,
                            [](int8_t stored, float scale) { return static_cast<float>(stored) * scale; });
}

}  // namespace tenon::quant

// SPDX-License-Identifier: Apache-2.0
#include "quant/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "support/net.h"

namespace tenon::quant {
namespace {

/// A convolution of these weights; `attributes` as in the text form of graphs.
struct Anchor {
  ir::Graph graph;
  WeightView view;
  Anchor(const Tensor& weights, const std::string& attributes) {
    const Dims& dims = weights.dims();
    std::string sizes;
    for (const int64_t size : dims) sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
    graph = ir::parse("graph \"g\"\ninput %x : f32[1,C,8,8]\nconst %w : f32[" + sizes +
                          "] = @0\n%y : f32[1,N,H,W] = Conv(%x, %w)" + attributes + "\noutput %y as \"y\"\n",
                      {weights});
    view = weights_of(graph, graph.nodes[0]);
  }
};

double error_of(const WeightView& view, const std::vector<float>& scales, bool paired) {
  double sum = 0;
  for (int64_t row = 0; row < view.rows; ++row) {
    const std::vector<int8_t> stored = store_row(view, row, scales[row], paired);
    for (int64_t i = 0; i < view.inner; ++i)
      sum += std::pow(view.at(row, i) - static_cast<float>(stored[i]) * scales[row], 2);
  }
  return sum;
}

/// Of neighbours in the order tap, channel: the most that those of one sign add up to.
int largest_pair(const WeightView& view, const std::vector<int8_t>& stored) {
  const int64_t channels = view.inner / view.taps;
  int most = 0;
  for (int64_t k = 0; k + 1 < view.inner; k += 2) {
    const int a = stored[k % channels * view.taps + k / channels],
              b = stored[(k + 1) % channels * view.taps + (k + 1) / channels];
    most = std::max({most, std::max(a, 0) + std::max(b, 0), -std::min(a, 0) - std::min(b, 0)});
  }
  return most;
}

TEST(weights, of_pairs_fit_sixteen_bits) {
  for (const Dims& dims : {Dims{8, 64, 1, 1}, Dims{4, 6, 5, 5}, Dims{4, 2, 3, 2}}) {
    const Anchor anchor(test::random_tensor(dims, 3), "");
    EXPECT_TRUE(anchor.view.pairable);
    const std::vector<float> scales = weight_scales(anchor.view, {}, true);
    for (int64_t row = 0; row < anchor.view.rows; ++row)
      EXPECT_LE(largest_pair(anchor.view, store_row(anchor.view, row, scales[row], true)), 128);
  }
}

TEST(weights, are_only_rounded_where_they_are_no_pairs) {
  const Anchor anchor(test::random_tensor({8, 64, 1, 1}, 4), "");
  const float scale = 0.4f / 127;
  const std::vector<int8_t> stored = store_row(anchor.view, 1, scale, false);
  for (int64_t i = 0; i < anchor.view.inner; ++i)
    EXPECT_EQ(stored[i], std::clamp(std::nearbyint(anchor.view.at(1, i) / scale), -127.f, 127.f));
}

TEST(weights, of_winograd_and_of_odd_channels_gain_nothing_by_pairs) {
  EXPECT_FALSE(Anchor(test::random_tensor({4, 6, 3, 3}, 4), "").view.pairable);
  EXPECT_FALSE(Anchor(test::random_tensor({6, 1, 5, 5}, 4), " {group=6}").view.pairable);
  EXPECT_FALSE(Anchor(test::random_tensor({4, 3, 7, 7}, 4), " {strides=[2, 2]}").view.pairable);
  EXPECT_TRUE(Anchor(test::random_tensor({4, 6, 3, 3}, 4), " {strides=[2, 2]}").view.pairable);
}

TEST(weights, have_scales_of_the_least_error) {
  const Anchor anchor(test::random_tensor({5, 32, 1, 1}, 5), "");
  for (const bool paired : {false, true}) {
    const std::vector<float> scales = weight_scales(anchor.view, {}, paired);
    const double least = error_of(anchor.view, scales, paired);
    for (const float factor : {0.7f, 0.9f, 1.1f, 1.3f}) {
      std::vector<float> others = scales;
      for (float& scale : others) scale *= factor;
      EXPECT_GT(error_of(anchor.view, others, paired), least) << factor;
    }
  }
}

}  // namespace
}  // namespace tenon::quant

// SPDX-License-Identifier: Apache-2.0
// NonMaxSuppression against every pair of boxes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "backends/kernel.h"
#include "ops/op.h"

namespace tenon::tests {
namespace {

using Corners = std::array<float, 4>;

float overlap(const Corners& a, const Corners& b) {
  const float height = std::min(a[2], b[2]) - std::max(a[0], b[0]), width = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  const auto area = [](const Corners& box) { return (box[2] - box[0]) * (box[3] - box[1]); };
  if (height <= 0 || width <= 0 || area(a) <= 0 || area(b) <= 0) return 0;
  return height * width / (area(a) + area(b) - height * width);
}

std::vector<int64_t> all_pairs(const std::vector<Corners>& boxes, const std::vector<float>& scores, float limit) {
  std::vector<int64_t> order(boxes.size()), kept;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  for (const int64_t at : order)
    if (std::none_of(kept.begin(), kept.end(), [&](int64_t other) { return overlap(boxes[at], boxes[other]) > limit; }))
      kept.push_back(at);
  return kept;
}

/// The third column of what the CPU's kernel finds.
std::vector<int64_t> by_kernel(const ir::Node& node, const std::vector<Tensor>& inputs) {
  backends::Problem problem;
  problem.node = &node;
  std::vector<std::byte*> memory;
  for (const Tensor& input : inputs) {
    problem.inputs.push_back({input.dtype(), input.dims(), backends::dense_strides(input.dims()), {}});
    memory.push_back(const_cast<std::byte*>(input.data<std::byte>()));
  }
  problem.outputs.push_back({DType::i64, {}, {}, {}});
  const std::unique_ptr<backends::Step> step = backends::kernels_for(node.op).front()->make(problem);
  const auto& finding = dynamic_cast<const backends::FindingStep&>(*step);
  Tensor workspace(DType::u8, {static_cast<int64_t>(step->workspace_bytes())});
  const Worker alone{0, 1, nullptr, nullptr, workspace.data<std::byte>()};
  finding.find(memory.data(), alone);
  Tensor rows(DType::i64, finding.found(workspace.data<std::byte>()));
  std::byte* const outputs[] = {rows.data<std::byte>()};
  finding.run(memory.data(), outputs, alone);
  std::vector<int64_t> boxes;
  for (int64_t at = 0; at < rows.dims()[0]; ++at) boxes.push_back(rows.data<int64_t>()[at * 3 + 2]);
  return boxes;
}

void expect_all_pairs(const std::vector<Corners>& boxes, float limit) {
  const auto count = static_cast<int64_t>(boxes.size());
  std::mt19937 random(3);
  std::vector<float> scores;
  for (int64_t at = 0; at < count; ++at) scores.push_back(std::uniform_real_distribution<float>(0, 1)(random));
  Tensor given(DType::f32, {1, count, 4});
  for (int64_t at = 0; at < count; ++at) std::copy_n(boxes[at].begin(), 4, given.data<float>() + at * 4);
  ir::Node node;
  node.op = "NonMaxSuppression";
  node.inputs.resize(4);
  node.outputs = {0};
  const std::vector<float> limits{limit};
  const std::vector<int64_t> most{count};
  const std::vector<Tensor> inputs{given, Tensor::of<float>(DType::f32, {1, 1, count}, scores),
                                   Tensor::of<int64_t>(DType::i64, {1}, most),
                                   Tensor::of<float>(DType::f32, {1}, limits)};
  const Tensor rows = ops::evaluate(node, inputs)[0];
  std::vector<int64_t> got;
  for (int64_t at = 0; at < rows.dims()[0]; ++at) got.push_back(rows.data<int64_t>()[at * 3 + 2]);
  const std::vector<int64_t> wanted = all_pairs(boxes, scores, limit);
  EXPECT_EQ(got, wanted);
  if (count > 0) {
    EXPECT_EQ(by_kernel(node, inputs), wanted);
  }
}

/// Boxes of `classes` that lie `apart` from each other, each up to `size` wide and high.
std::vector<Corners> boxes_of(int classes, float apart, float size, bool turned) {
  std::mt19937 random(classes);
  std::uniform_real_distribution<float> place(0, 100), length(0, size);
  std::vector<Corners> boxes;
  for (int at = 0; at < 700; ++at) {
    const float y = place(random), x = place(random) + apart * static_cast<float>(at % classes);
    const Corners box{y, x, y + length(random), x + length(random)};
    boxes.push_back(turned ? Corners{box[1], box[0], box[3], box[2]} : box);
  }
  return boxes;
}

TEST(NonMaxSuppression, IsThatOfAllPairs) {
  for (const float limit : {-0.5f, 0.f, 0.3f, 0.7f})
    for (const bool turned : {false, true}) {
      expect_all_pairs(boxes_of(1, 0, 10, turned), limit);
      expect_all_pairs(boxes_of(1, 0, 200, turned), limit);
      expect_all_pairs(boxes_of(40, 321, 100, turned), limit);
      expect_all_pairs(boxes_of(3, 1e6f, 50, turned), limit);
    }
}

TEST(NonMaxSuppression, TakesBoxesWithoutEnds) {
  for (const float odd : {NAN, HUGE_VALF, -HUGE_VALF, 3e38f, -3e38f, 0.f})
    for (size_t corner = 0; corner < 4; ++corner) {
      std::vector<Corners> boxes = boxes_of(5, 100, 30, false);
      for (size_t at = 0; at < boxes.size(); at += 9) boxes[at][corner] = odd;
      for (Corners& box : boxes)  // corners in order, where they have one
        for (size_t axis : {0, 1})
          if (box[axis] > box[axis + 2]) std::swap(box[axis], box[axis + 2]);
      expect_all_pairs(boxes, 0.3f);
    }
  expect_all_pairs(std::vector<Corners>(20, Corners{1, 1, 1, 1}), 0.3f);
  expect_all_pairs({}, 0.3f);
}

}  // namespace
}  // namespace tenon::tests

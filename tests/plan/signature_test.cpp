// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "backends/kernel.h"

namespace tenon::backends {
namespace {

std::string key(const ir::Attributes& attributes, const std::function<void(Problem&)>& change = {}) {
  ir::Node node;
  node.op = "Conv";
  node.attributes = attributes;
  Problem problem;
  problem.node = &node;
  problem.inputs = {{DType::f32, {1, 8}, {8, 1}}};
  problem.outputs = {{DType::f32, {1, 8}, {8, 1}}};
  if (change) change(problem);
  return signature(problem);
}

Tensor tensor_of(std::vector<float> values) {
  Tensor tensor(DType::f32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.data<float>());
  return tensor;
}

TEST(Signature, TellsAllThatAKernelSeesApart) {
  ir::Graph graph;
  graph.name = "body";
  const std::vector<ir::Attributes> all = {{},
                                           {{"a", 1.0f}},
                                           {{"a", 1.0000001f}},
                                           {{"a", 1e-9f}},
                                           {{"a", 2e-9f}},
                                           {{"a", int64_t{1}}},
                                           {{"a", std::string("1")}},
                                           {{"a", std::string("1\" b=\"2")}},
                                           {{"a", std::string("1")}, {"b", std::string("2")}},
                                           {{"a", std::vector<float>{1, 2}}},
                                           {{"a", std::vector<float>{1, 3}}},
                                           {{"a", std::vector<int64_t>{1, 2}}},
                                           {{"a", std::vector<std::string>{"x", "y"}}},
                                           {{"a", std::vector<std::string>{"x\",\"y"}}},
                                           {{"a", tensor_of({1, 2})}},
                                           {{"a", tensor_of({1, 3})}},
                                           {{"a", Tensor::of_strings({1}, {"x"})}},
                                           {{"a", std::make_shared<ir::Graph>(graph)}}};
  std::set<std::string> keys;
  for (const ir::Attributes& attributes : all) keys.insert(key(attributes));
  EXPECT_EQ(keys.size(), all.size());
}

TEST(Signature, TellsArithmeticApart) {
  std::set<std::string> keys{key({})};
  for (bool Problem::*flag : {&Problem::strict, &Problem::tf32, &Problem::bf16, &Problem::fused})
    keys.insert(key({}, [&](Problem& problem) { problem.*flag = true; }));
  EXPECT_EQ(keys.size(), 5u);
}

TEST(Signature, HasTheThreadsInFront) {
  const auto with = [](int threads) { return [=](Problem& problem) { problem.threads = threads; }; };
  EXPECT_EQ(key({}, with(4)).rfind("t4 Conv ", 0), 0u);
  EXPECT_EQ(key({}, with(0)).rfind("Conv ", 0), 0u);
  EXPECT_TRUE(same_but_threads(key({}, with(4)), key({}, with(12))));
  // A text of the model that looks like threads is none.
  const ir::Attributes one{{"mode", std::string("x t4")}}, other{{"mode", std::string("x t5")}};
  EXPECT_FALSE(same_but_threads(key(one, with(4)), key(other, with(4))));
}

}  // namespace
}  // namespace tenon::backends

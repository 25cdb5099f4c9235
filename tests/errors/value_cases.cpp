// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "cases.h"

namespace tenon::errors {

using namespace test;

namespace {

std::string a_relu(const std::vector<int64_t>& dims) {
  return model(input("x", dims) + node("r", "Relu", {"x"}, {"y"}) + output("y"));
}

std::string convolving_with(std::vector<float> weights) {
  weights.resize(16);
  return model(input("x", {1, 4, 8, 8}) + tensor("conv.weight", f32, {4, 4, 1, 1}, raw(weights)) +
               node("c", "Conv", {"x", "conv.weight"}, {"y"}) + output("y"));
}

std::string dropping(bool training) {
  return model(input("x", {2, 4}) + tensor("ratio", f32, {}, raw<float>({0.5f})) +
               tensor("mode", boolean, {}, std::string(1, training ? '\1' : '\0')) +
               node("d", "Dropout", {"x", "ratio", "mode"}, {"y"}) + output("y"));
}

}  // namespace

std::vector<Case> value_cases() {
  return {
      building("9.value.not_a_number", convolving_with({1, NAN, 2, NAN})),
      building("9.value.infinite", convolving_with({1, INFINITY})),
      building("9.value.many", model(input("x", {2}) +
                                     [] {
                                       std::string all;
                                       for (const char* name : {"a", "b", "c", "d"})
                                         all += tensor(name, f32, {2}, raw<float>({NAN, 1}));
                                       return all;
                                     }() +
                                     node("s", "Sum", {"x", "a", "b", "c", "d"}, {"y"}) + output("y"))),
      building("9.value.denormal", convolving_with({1e-40f})),
      building("9.value.zero_channel", convolving_with({})),
      building("9.training.dropout", dropping(true)),
      building("9.training.idle_dropout", dropping(false)),

      running("10.size.rank_0", a_relu({})),
      running("10.size.batch_0", a_relu({0, 4})),
      running("10.size.batch_0_given", a_relu({-1, 4}), {"--shapes", "x:0x4"}),
      running("10.size.conv_of_nothing", model(input("x", {0, 4, 8, 8}) + zeros("w", {4, 4, 3, 3}) +
                                               node("c", "Conv", {"x", "w"}, {"y"}) + output("y"))),
      running("10.size.matmul_over_nothing",
              model(input("x", {2, 0}) + input("z", {0, 3}) + node("m", "MatMul", {"x", "z"}, {"y"}) + output("y"))),
      running("10.size.kernel_beyond_input", model(input("x", {1, 4, 2, 2}) + zeros("w", {4, 4, 3, 3}) +
                                                   node("c", "Conv", {"x", "w"}, {"y"}) + output("y"))),
      running("10.size.max_of_nothing",
              model(input("x", {2, 0}) + node("m", "ArgMax", {"x"}, {"y"}, integer("axis", 1)) + output("y"))),
      building("10.size.rank_9", a_relu({1, 1, 1, 1, 1, 1, 1, 1, 1})),
      building("10.size.rank_9_made", model(input("x", {1, 1, 1, 1, 1, 1, 1, 1}) + numbers("a", {0}) +
                                            node("u", "Unsqueeze", {"x", "a"}, {"y"}) + output("y"))),
      building("10.size.free_size_not_given", a_relu({-1, -2})),
      building("10.size.given_contradicts", a_relu({1, 4}), {"--shapes", "x:1x5"}),
      building("10.size.given_of_other_rank", a_relu({1, 4}), {"--shapes", "x:1x4x4"}),
      building("10.size.given_unknown_input", a_relu({1, 4}), {"--shapes", "z:1x4"}),
      building("10.size.given_negative", a_relu({-1, 4}), {"--shapes", "x:-1x4"}),
      building("10.size.given_no_number", a_relu({-1, 4}), {"--shapes", "x:ax4"}),
      building("10.index.axes_of_booleans", model(input("x", {2, 4}) + tensor("a", boolean, {2}, std::string(2, '\1')) +
                                                  node("r", "ReduceSum", {"x", "a"}, {"y"}) + output("y"))),
      running("10.index.gather_outside",
              model(input("x", {2, 4}) + numbers("i", {7}) + node("g", "Gather", {"x", "i"}, {"y"}) + output("y"))),
      tuning("10.index.gather_outside_while_tuning",
             model(input("x", {4, 5}) + numbers("i", {0, 4}) + node("g", "Gather", {"x", "i"}, {"y"}) + output("y"))),
      running("10.index.gather_outside_late",
              model(input("x", {1}, i64) + zeros("w", {1, 4}) + numbers("n", {9}) +
                    node("a", "Add", {"x", "n"}, {"i"}) + node("g", "Gather", {"w", "i"}, {"y"}) + output("y"))),
      running("10.index.region_of_no_image",
              model(input("x", {2, 1, 4, 4}) + input("r", {1, 4}) + numbers("i", {2}) +
                    node("a", "RoiAlign", {"x", "r", "i"}, {"y"}, integer("sampling_ratio", 2)) + output("y"))),
  };
}

}  // namespace tenon::errors

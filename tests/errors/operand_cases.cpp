// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace tenon::errors {

using namespace test;

namespace {

const std::string x = input("x", {1, 4}), y = output("y");

const std::string rounds =
    input("i", {}, i64) + input("k", {}, boolean) + input("c", {1, 4}) + node("n", "Relu", {"c"}, {"d"});

/// A loop of x, with an operand of these sizes and this type for its trip count or its condition.
std::string loop(const std::string& operand, const std::vector<std::string>& inputs) {
  const std::string body = rounds + node("q", "Identity", {"k"}, {"k2"}) + output("k2") + output("d");
  return model(x + operand + node("l", "Loop", inputs, {"y"}, graph("body", body)) + y);
}

/// A loop whose body ends by what the node gives.
std::string loop_until(const std::string& again) {
  return model(x + node("l", "Loop", {"", "", "x"}, {"y"}, graph("body", rounds + again + output("k2") + output("d"))) +
               y);
}

std::string branch(const std::string& condition, const std::string& other = node("e", "Neg", {"x"}, {"o"})) {
  return model(x + condition +
               node("if", "If", {"c"}, {"y"},
                    graph("then_branch", node("t", "Relu", {"x"}, {"o"}) + output("o")) +
                        graph("else_branch", other + output("o"))) +
               y);
}

std::string rotary(const std::vector<int64_t>& cache, const std::vector<int64_t>& positions) {
  return model(input("x", {1, 2, 3, 4}) + zeros("cos", cache) + zeros("sin", cache) + input("p", positions, i64) +
                   node("r", "RotaryEmbedding", {"x", "cos", "sin", "p"}, {"y"}) + y,
               "", 23);
}

std::string scatter(const std::vector<int64_t>& update, const std::vector<int64_t>& indices) {
  return model(input("x", {2, 1, 4, 3}) + input("u", update) + input("at", indices, i64) +
                   node("s", "TensorScatter", {"x", "u", "at"}, {"y"}) + y,
               "", 24);
}

std::string padded(const std::string& operands, const std::vector<std::string>& inputs) {
  return model(x + operands + node("p", "Pad", inputs, {"y"}) + y, "", 18);
}

std::string one(const std::string& operands, const char* op, const std::vector<std::string>& inputs,
                const std::string& attributes = "", uint64_t opset = 18) {
  return model(x + operands + node("a", op, inputs, {"y"}, attributes) + y, "", opset);
}

}  // namespace

std::vector<Case> operand_cases() {
  return {
      running("12.loop.no_count", loop(input("n", {0}, i64), {"n", "", "x"})),
      running("12.loop.count_of_8_bits", loop(input("n", {}, i8), {"n", "", "x"})),
      running("12.loop.count_in_floats", loop(input("n", {}), {"n", "", "x"})),
      running("12.loop.two_counts", loop(input("n", {2}, i64), {"n", "", "x"})),
      running("12.loop.condition_of_integers", loop(input("c", {}, i64), {"", "c", "x"})),
      running("12.loop.no_condition", loop(input("c", {0}, boolean), {"", "c", "x"})),
      running("12.loop.body_gives_an_integer", loop_until(node("q", "Identity", {"i"}, {"k2"}))),
      running("12.loop.body_gives_two_conditions",
              loop_until(numbers("two", {2}) + node("q", "Expand", {"k", "two"}, {"k2"}))),
      running("12.loop.carried_changes_type",
              model(x + scalar("n", 2) +
                    node("l", "Loop", {"n", "", "x"}, {"y"},
                         graph("body", rounds + node("z", "Cast", {"d"}, {"e"}, integer("to", 7)) + output("k") +
                                           output("e"))) +
                    y)),
      running("12.if.condition_of_integers", branch(input("c", {}, i64))),
      running("12.if.no_condition", branch(input("c", {0}, boolean))),
      running("12.if.two_conditions", branch(input("c", {2}, boolean))),
      running("12.if.branches_of_two_types",
              branch(input("c", {}, boolean), node("e", "Cast", {"x"}, {"o"}, integer("to", 7)))),

      running("12.rotary.few_positions", rotary({8, 2}, {1, 2})),
      running("12.rotary.no_positions", rotary({8, 2}, {1, 0})),
      running("12.rotary.no_cache", rotary({0, 2}, {1, 3})),
      running("12.rotary.odd_cache", rotary({8, 3}, {1, 3})),
      running("12.scatter.few_indices", scatter({2, 1, 1, 3}, {1})),
      running("12.scatter.no_indices", scatter({2, 1, 1, 3}, {0})),
      running("12.scatter.short_update", scatter({1, 1, 1, 3}, {2})),
      running("12.scatter.narrow_update", scatter({2, 1, 1, 2}, {2})),
      running("12.pad.no_value", padded(numbers("n", {0, 0, 1, 1}) + input("v", {0}), {"x", "n", "v"})),
      running("12.pad.value_of_another_type", padded(numbers("n", {0, 0, 1, 1}) + input("v", {}, i8), {"x", "n", "v"})),
      running("12.gather.indices_of_8_bits", one(input("i", {2}, i8), "Gather", {"x", "i"})),
      running("12.gather.elements_outside",
              one(input("i", {2, 4}, i64), "GatherElements", {"x", "i"}, integer("axis", 1))),
      running("12.scatter.elements_short",
              one(input("i", {1, 4}, i64) + input("u", {1, 3}), "ScatterElements", {"x", "i", "u"})),
      running("12.scatter.tuples_short",
              one(input("i", {2, 1}, i64) + input("u", {1, 4}), "ScatterND", {"x", "i", "u"})),
      running("12.reshape.to_a_scalar", one(input("s", {0}, i64), "Reshape", {"x", "s"})),
      running("12.squeeze.to_a_scalar", one(input("s", {2}, i64), "Squeeze", {"x", "s"})),
      running("12.quantize.two_types",
              model(x + input("s", {}) + input("z", {}, i8) +
                        node("a", "QuantizeLinear", {"x", "s", "z"}, {"y"}, integer("output_dtype", u8)) + y,
                    "", 21)),
      running("12.space_to_depth.odd_plane",
              model(input("x", {1, 2, 5, 4}) + node("a", "SpaceToDepth", {"x"}, {"y"}, integer("blocksize", 2)) + y)),
      running("12.slice.of_a_scalar",
              model(input("x", {}) + numbers("s", {0}) + node("a", "Slice", {"x", "s", "s"}, {"y"}) + y)),
      running("12.prelu.long_slope", one(input("s", {3, 4}), "PRelu", {"x", "s"})),
      running("12.clip.two_bounds", one(input("s", {2}), "Clip", {"x", "s"})),

      building("12.input.no_type", model(field(11, field(1, "x")) + node("a", "Abs", {"x"}, {"y"}) + y)),
      building("12.input.type_zero",
               model(field(11, field(1, "x") + field(2, field(1, field(1, 0)))) + node("a", "Abs", {"x"}, {"y"}) + y)),
      building("12.count.if", model(input("c", {}, boolean) + x +
                                    node("if", "If", {"c", "x"}, {"y"},
                                         graph("then_branch", node("t", "Relu", {"x"}, {"o"}) + output("o")) +
                                             graph("else_branch", node("e", "Neg", {"x"}, {"o"}) + output("o"))) +
                                    y)),
      building("12.count.gemm", one(zeros("w", {4, 4}) + zeros("r", {1, 4}), "Gemm", {"x", "w", "r", "r"})),
      building("12.count.matmul", one(zeros("w", {4, 4}) + zeros("b", {4}), "MatMul", {"x", "w", "b"})),
      building("12.count.conv", model(input("x", {1, 1, 4, 4}) + zeros("w", {1, 1, 1, 1}) + zeros("b", {1}) +
                                      node("c", "Conv", {"x", "w", "b", "x"}, {"y"}) + y)),
      building("12.count.conv_transpose", model(input("x", {1, 1, 4, 4}) + zeros("w", {1, 1, 1, 1}) + zeros("b", {1}) +
                                                node("c", "ConvTranspose", {"x", "w", "b", "x"}, {"y"}) + y)),
  };
}

}  // namespace tenon::errors

// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace tenon::errors {

using namespace test;

namespace {

/// A convolution named c, with these attributes.
std::string conv(const std::string& attributes, uint64_t opset = 17) {
  return model(input("x", {1, 2, 4, 4}) + zeros("w", {3, 2, 3, 3}) + node("c", "Conv", {"x", "w"}, {"y"}, attributes) +
                   output("y"),
               "", opset);
}
std::string one(const std::string& op, const std::string& attributes, uint64_t opset = 17) {
  return model(input("x", {1, 4}) + node("n", op, {"x"}, {"y"}, attributes) + output("y"), "", opset);
}

}  // namespace

std::vector<Case> attribute_cases() {
  const std::string unknown = conv(integers("stride", {1, 1}));
  return {
      building("11.attribute.unknown", unknown),
      building("11.attribute.unknown_of_op_with_none", one("Sin", integer("axis", 1))),
      running("11.attribute.unknown_lenient", unknown, {"--lenient"}),
      building("11.attribute.of_a_later_opset", one("Cast", integer("to", 1) + integer("saturate", 1))),
      building("11.attribute.of_an_earlier_opset", one("Squeeze", integers("axes", {0}))),
      building("11.attribute.wrong_type", conv(integer("strides", 2))),
      building("11.attribute.wrong_type_graph", conv(graph("strides", node("r", "Relu", {"x"}, {"z"}) + output("z")))),
      building("11.attribute.out_of_range", conv(integers("strides", {0, 1}))),
      building("11.attribute.out_of_range_group", conv(integer("group", -1))),
      building("11.attribute.no_flag", one("ReduceSum", integer("keepdims", 2))),
      building("11.attribute.no_such_word", conv(text("auto_pad", "SAME"))),
      building("11.attribute.no_element_type", one("Cast", integer("to", 99))),
      building("11.attribute.unsupported_element_type", one("Cast", integer("to", 23))),
      building("11.attribute.missing", one("Concat", "")),
      building("11.attribute.internal", conv(text("layout", "NHWC") + text("activation", "relu"))),
      running("11.attribute.internal_lenient", conv(text("activation", "sqrt")), {"--lenient"}),
      building("11.attribute.captures",
               model(input("x", {1, 4}) + input("c", {}, boolean) +
                     node("i", "If", {"c"}, {"y"},
                          integer("captures", 7) + graph("then_branch", node("t", "Relu", {"x"}, {"o"}) + output("o")) +
                              graph("else_branch", node("e", "Neg", {"x"}, {"o"}) + output("o"))) +
                     output("y"))),
  };
}

}  // namespace tenon::errors

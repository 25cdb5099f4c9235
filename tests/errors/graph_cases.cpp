// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace tenon::errors {

using namespace test;

namespace {

const std::string x = input("x", {1, 4}), y = output("y");

std::string function(const std::string& name, const std::string& calls) {
  return field(25, field(1, name) + field(10, "f") + field(4, "a") + field(5, "b") +
                       field(7, field(1, "a") + field(2, "b") + field(4, calls) + field(7, "f")) +
                       field(9, field(2, 17)));
}
/// A function of one node, an Abs.
std::string abs_function(const std::string& name, const std::string& domain, const std::string& more = "") {
  return field(25, field(1, name) + field(10, domain) + field(4, "a") + field(5, "b") +
                       field(7, field(1, "a") + field(2, "b") + field(4, "Abs")) + field(9, field(2, 17)) + more);
}
std::string call(const char* op) { return node("c", op, {"x"}, {"y"}, field(7, "f")); }

/// Functions f0 to fN, each calling the next twice: 2^N nodes.
std::string doubling(int levels) {
  std::string all;
  for (int level = 0; level < levels; ++level) {
    const std::string next = "F" + std::to_string(level + 1), domain = level + 1 < levels ? field(7, "f") : "";
    const std::string op = level + 1 < levels ? next : "Relu";
    all += field(25, field(1, "F" + std::to_string(level)) + field(10, "f") + field(4, "a") + field(5, "b") +
                         field(7, field(1, "a") + field(2, "h") + field(3, "l") + field(4, op) + domain) +
                         field(7, field(1, "h") + field(2, "b") + field(3, "m") + field(4, op) + domain) +
                         field(9, field(2, 17)));
  }
  return all;
}

std::string chain(int length) {
  std::string nodes;
  for (int at = 0; at < length; ++at)
    nodes += node("", at % 2 ? "Sin" : "Cos", {at ? "h" + std::to_string(at - 1) : "x"}, {"h" + std::to_string(at)});
  return model(x + nodes + output("h" + std::to_string(length - 1)));
}

}  // namespace

std::vector<Case> graph_cases() {
  return {
      building("7.graph.cycle", model(x + node("a", "Add", {"x", "q"}, {"p"}) + node("b", "Abs", {"p"}, {"q"}) +
                                      node("c", "Abs", {"q"}, {"y"}) + y)),
      building("7.graph.self_edge", model(x + node("a", "Add", {"x", "y"}, {"y"}) + y)),
      building("7.graph.recursion", model(x + call("F") + y, function("F", "G") + function("G", "F"))),
      building("7.graph.self_recursion", model(x + call("F") + y, function("F", "F"))),
      building("7.graph.doubling_functions", model(x + call("F0") + y, doubling(40))),
      building("7.graph.long_chain", chain(20'000)),

      building("8.graph.value_twice", model(x + node("a", "Abs", {"x"}, {"y"}) + node("b", "Neg", {"x"}, {"y"}) + y)),
      building("8.graph.input_twice", model(x + x + node("a", "Abs", {"x"}, {"y"}) + y)),
      building("8.graph.output_shadows_input", model(x + node("a", "Abs", {"x"}, {"x"}) + output("x"))),
      building("8.graph.output_shadows_initializer",
               model(x + zeros("w", {4}) + node("a", "Add", {"x", "w"}, {"w"}) + output("w"))),
      building("8.graph.input_missing", model(x + node("a", "Add", {"x", "ghost"}, {"y"}) + y)),
      building("8.graph.output_missing", model(x + node("a", "Abs", {"x"}, {"z"}) + y)),
      building("8.graph.no_opset", field(1, 8) + field(7, x + node("a", "Abs", {"x"}, {"y"}) + y)),
      building("8.graph.opset_too_new", model(x + node("a", "Abs", {"x"}, {"y"}) + y, "", 99)),
      building("8.graph.opset_zero", model(x + node("a", "Abs", {"x"}, {"y"}) + y, "", 0)),
      building("8.graph.function_twice", model(x + call("F") + y, function("F", "G") + function("F", "G"))),
      building("8.graph.function_of_ours",
               model(x + node("c", "F", {"x"}, {"y"}, field(7, "tenon")) + y, abs_function("F", "tenon"))),
      building("8.graph.function_with_colon",
               model(x + node("c", "Relu", {"x"}, {"y"}) + y, abs_function("tenon:F", "f"))),
      building("8.graph.function_imports_ours",
               model(x + call("F") + y, abs_function("F", "f", field(9, field(1, "tenon") + field(2, 1))))),
      building("8.graph.opset_of_ours",
               model(x + node("c", "Relu", {"x"}, {"y"}) + y, field(8, field(1, "tenon") + field(2, 1)))),
      building("8.graph.function_overrides", model(x + node("c", "Relu", {"x"}, {"y"}) + y, abs_function("Relu", ""))),
      building(
          "8.attribute.of_no_function",
          model(x + node("c", "F", {"x"}, {"y"}, field(7, "f") + integer("alpha", 1)) + y, abs_function("F", "f"))),
      building("8.attribute.of_no_function_lenient",
               model(x + node("c", "F", {"x"}, {"y"}, field(7, "f") + integer("alpha", 1)) + output("z"),
                     abs_function("F", "f")),
               {"--lenient"}),
      building("8.attribute.two_values",
               model(node("c", "Constant", {}, {"y"}, integer("value_int", 1) + integers("value_ints", {1, 2})) + y)),
      building("8.op.unknown", model(x + node("a", "Frobnicate", {"x"}, {"h"}) + node("b", "Frobnicate", {"h"}, {"i"}) +
                                     node("", "Wobble", {"i"}, {"y"}, field(7, "com.acme")) + y)),
      building("8.op.internal_domain", model(x + node("a", "MaxPools", {"x"}, {"y"}, field(7, "tenon")) + y)),
      building("8.op.internal_name", model(x + node("a", "MaxPools", {"x"}, {"y", "z"}) + y)),
      building("8.op.internal_text", model(x + node("a", "tenon:MaxPools", {"x"}, {"y", "z"}) + y)),
      building("8.op.empty", model(x + node("a", "", {"x"}, {"y"}) + y)),
      building("8.op.too_few_inputs", model(x + node("a", "Add", {"x"}, {"y"}) + y)),
      building("8.op.too_many_inputs", model(x + node("a", "Abs", {"x", "x"}, {"y"}) + y)),
      building("8.op.no_inputs", model(x + node("a", "Conv", {}, {"y"}) + y)),
      building("8.op.required_input_absent", model(x + node("a", "MatMul", {"", "x"}, {"y"}) + y)),
      building("8.op.no_outputs", model(x + node("a", "Abs", {"x"}, {}) + node("b", "Neg", {"x"}, {"y"}) + y)),
      building("8.op.too_many_outputs", model(x + node("a", "Abs", {"x"}, {"y", "z"}) + y)),
      building("8.op.types_differ", model(x + input("z", {1, 4}, i64) + node("a", "Add", {"x", "z"}, {"y"}) + y)),
      building("8.op.shapes_do_not_broadcast", model(x + input("z", {1, 5}) + node("a", "Add", {"x", "z"}, {"y"}) + y)),
      building("8.op.matmul_sizes", model(x + input("z", {5, 3}) + node("a", "MatMul", {"x", "z"}, {"y"}) + y)),
      building("8.op.concat_without_axis", model(x + node("a", "Concat", {"x", "x"}, {"y"}) + y)),
      building("8.attribute.twice",
               model(x + node("a", "Softmax", {"x"}, {"y"}, integer("axis", 1) + integer("axis", 0)) + y)),
      building("8.attribute.axis_outside", model(x + node("a", "Softmax", {"x"}, {"y"}, integer("axis", 7)) + y)),
      building("8.attribute.no_body", model(x + node("l", "Loop", {"", "", "x"}, {"y"}) + y)),
      building(
          "8.attribute.body_does_not_fit",
          model(x + node("l", "Loop", {"", "", "x"}, {"y"}, graph("body", input("i", {}, i64) + output("i"))) + y)),
      building("8.attribute.reference_outside_function",
               model(x + node("a", "Softmax", {"x"}, {"y"}, field(5, field(1, "axis") + field(21, "axis"))) + y)),
      building("8.name.hostile", model(x + node("\x1b[2J\nerror: none", "Abs", {"gh\x07ost"}, {"y"}) + y)),
  };
}

}  // namespace tenon::errors

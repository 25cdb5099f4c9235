// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cases.h"

namespace tenon::errors {

using namespace test;

namespace {

constexpr int64_t big = int64_t{1} << 38, million = 1'000'000;
const std::vector<std::string> cap{"--max-memory", "256M"};

/// One node over an input x of 1x4x8x8 and constants; the file has a few hundred bytes.
std::string bomb(const std::string& op, const std::vector<std::string>& inputs, const std::string& constants,
                 const std::string& attributes = "") {
  return model(input("x", {1, 4, 8, 8}) + constants + node("b", op, inputs, {"h"}, attributes) +
               node("r", "Relu", {"h"}, {"y"}) + output("y"));
}

/// The same where the sizes are an input of the model, so that they are known only in a run.
std::string late_bomb(const std::string& op, const std::vector<std::string>& inputs, const std::string& constants) {
  return model(input("x", {1}, i64) + constants + node("b", op, inputs, {"y"}) + output("y"));
}

std::string floats(const char* name, const std::vector<float>& values) {
  return tensor(name, f32, {static_cast<int64_t>(values.size())}, raw(values));
}

/// A loop whose condition never ends it; each round runs `body` over the carried value c.
std::string loop(const std::string& trips, const std::string& body, const std::vector<std::string>& inputs) {
  const std::string round = input("i", {}, i64) + input("k", {}, boolean) + input("c", {1, 4}) +
                            node("keep", "Identity", {"k"}, {"k2"}) + body + output("k2") + output("c2");
  return model(input("x", {1, 4}) + trips + node("loop", "Loop", inputs, {"y"}, graph("body", round)) + output("y"));
}
const std::string idle = node("id", "Relu", {"c"}, {"c2"});

/// Many large constants, each within bounds, which are read in one order and then in the other: all have to be kept.
std::string many(int count) {
  std::string nodes = numbers("s", {4'000'000}), inputs = "x";
  for (int at = 0; at < count; ++at) {
    const std::string name = "f" + std::to_string(at);
    const float number = static_cast<float>(at);
    const std::string fill = field(
        5, field(1, "value") + field(5, field(1, 1) + field(2, f32) + field(9, raw<float>({number}))) + field(20, 4));
    nodes += node(name, "ConstantOfShape", {"s"}, {name}, fill) +
             node("a" + name, "Add", {at ? "h" + std::to_string(at - 1) : "x", name}, {"h" + std::to_string(at)});
  }
  for (int at = count; at-- > 0;) {
    const std::string name = "f" + std::to_string(at), before = at + 1 < count ? "g" : "h";
    nodes += node("b" + name, "Mul", {before + std::to_string(std::min(at + 1, count - 1)), name},
                  {"g" + std::to_string(at)});
  }
  return model(input("x", {1}) + nodes + output("g0"));
}

}  // namespace

std::vector<Case> memory_cases() {
  return {
      building("6.bomb.constant_of_shape", bomb("ConstantOfShape", {"s"}, numbers("s", {big})), cap),
      building("6.bomb.constant_of_shape_overflows", bomb("ConstantOfShape", {"s"}, numbers("s", {big, big})), cap),
      building("6.bomb.tile", bomb("Tile", {"x", "s"}, numbers("s", {1, 1, million, million})), cap),
      building("6.bomb.tile_overflows", bomb("Tile", {"x", "s"}, numbers("s", {1, 1, big, big})), cap),
      building("6.bomb.expand", bomb("Expand", {"x", "s"}, numbers("s", {big, 4, 8, 8})), cap),
      building("6.bomb.range", bomb("Range", {"a", "l", "d"}, scalar("a", 0) + scalar("l", big) + scalar("d", 1)), cap),
      building("6.bomb.pad", bomb("Pad", {"x", "s"}, numbers("s", {0, 0, million, million, 0, 0, million, million})),
               cap),
      building("6.bomb.pad_overflows", bomb("Pad", {"x", "s"}, numbers("s", {INT64_MAX, 0, 0, 0, INT64_MAX, 0, 0, 0})),
               cap),
      building("6.bomb.resize_scales", bomb("Resize", {"x", "", "s"}, floats("s", {1, 1, 1e9f, 1e9f})), cap),
      building("6.bomb.resize_sizes", bomb("Resize", {"x", "", "", "s"}, numbers("s", {1, 4, million, million})), cap),
      building("6.bomb.upsample", bomb("Resize", {"x", "", "s"}, floats("s", {1, 1, 3e38f, 3e38f})), cap),
      building(
          "6.bomb.conv_pads",
          bomb("Conv", {"x", "w"}, zeros("w", {4, 4, 1, 1}), integers("pads", {million, million, million, million})),
          cap),
      building("6.bomb.conv_transpose",
               bomb("ConvTranspose", {"x", "w"}, zeros("w", {4, 4, 2, 2}), integers("strides", {million, million})),
               cap),
      building("6.bomb.max_pool",
               bomb("MaxPool", {"x"}, "", integers("kernel_shape", {1, 1}) + integers("pads", {0, 0, big, big})), cap),
      building("6.bomb.one_hot",
               bomb("OneHot", {"x", "d", "v"}, scalar("d", big) + tensor("v", f32, {2}, raw<float>({0, 1}))), cap),
      building("6.bomb.random", bomb("RandomNormal", {}, "", integers("shape", {million, million})), cap),
      building("6.bomb.eye",
               bomb("EyeLike", {"e"}, numbers("s", {million, million}) + node("c", "ConstantOfShape", {"s"}, {"e"})),
               cap),
      building("6.bomb.group_of_constants", many(60), cap),
      building("6.bomb.input", model(input("x", {million, million}) + node("r", "Relu", {"x"}, {"y"}) + output("y")),
               cap),
      running("6.late.constant_of_shape",
              late_bomb("ConstantOfShape", {"m"}, numbers("b", {big}) + node("a", "Max", {"x", "b"}, {"m"})), cap),
      running("6.late.range",
              late_bomb("Range", {"a", "m", "d"},
                        scalar("a", 0) + scalar("b", big) + scalar("d", 1) +
                            node("q", "ReduceMax", {"x"}, {"z"}, integer("keepdims", 0)) +
                            node("p", "Max", {"z", "b"}, {"m"})),
              cap),
      running("6.late.expand",
              late_bomb("Expand", {"x", "m"}, numbers("b", {big}) + node("a", "Max", {"x", "b"}, {"m"})), cap),
      running("6.late.loop_that_grows",
              loop(scalar("n", 1000), node("grow", "Concat", {"c", "c"}, {"c2"}, integer("axis", 0)), {"n", "", "x"}),
              cap),
      running("6.loop.endless", loop("", idle, {"", "", "x"})),
      running("6.loop.endless_with_limit", loop("", idle, {"", "", "x"}), {"--max-rounds", "100"}),
      running("6.loop.huge_count", loop(scalar("n", INT64_MAX), idle, {"n", "", "x"}), {"--max-rounds", "1000"}),
      {"6.limit.no_size", [](const Folder&) {}, {"build", "m.onnx", "-o", "m.tenon", "--max-memory", "much"}},
      {"6.limit.no_rounds", [](const Folder&) {}, {"build", "m.onnx", "-o", "m.tenon", "--max-rounds", "0"}},
  };
}

}  // namespace tenon::errors

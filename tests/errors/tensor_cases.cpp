// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "cases.h"

namespace tenon::errors {

using namespace test;

namespace {

/// x + w, where w is this initializer.
std::string with(const std::string& tensor) {
  return model(input("x", {1, 4}) + tensor + node("a", "Add", {"x", "w"}, {"y"}) + output("y"));
}

std::string convolving(const std::string& weights, const std::string& attributes = "", const std::string& more = "") {
  return model(input("x", {1, 4, 8, 8}) + weights + more +
               node("c", "Conv",
                    more.empty() ? std::vector<std::string>{"x", "w"} : std::vector<std::string>{"x", "w", "b"}, {"y"},
                    attributes) +
               output("y"));
}

constexpr int64_t lowest = std::numeric_limits<int64_t>::min();

std::string reshaping(const std::vector<int64_t>& sizes) {
  return model(input("x", {1, 4}) + numbers("s", sizes) + node("r", "Reshape", {"x", "s"}, {"y"}) + output("y"));
}

}  // namespace

std::vector<Case> tensor_cases() {
  const std::string floats_twice = field(
      5, field(1, 1) + field(2, f32) + field(8, "w") + field(4, std::string(4, '\0')) + field(9, std::string(4, '\0')));
  const std::string packed = field(5, field(1, 3) + field(2, u4) + field(8, "w") + field(9, std::string(1, '\0')));
  const std::string counted = field(5, field(1, 4) + field(2, f32) + field(8, "w") + field(4, std::string(12, '\0')));
  return {
      building("3.tensor.too_few_bytes", with(tensor("w", f32, {1, 4}, std::string(15, '\0')))),
      building("3.tensor.too_many_bytes", with(tensor("w", f32, {1, 4}, std::string(20, '\0')))),
      building("3.tensor.no_bytes", with(tensor("w", f32, {1, 4}, ""))),
      building("3.tensor.too_few_floats", with(counted)),
      building("3.tensor.data_twice", with(floats_twice)),
      building("3.tensor.odd_nibbles", with(packed)),
      building("3.tensor.unknown_type", with(tensor("w", static_cast<Element>(99), {1}, "a"))),
      building("3.tensor.complex_type", with(tensor("w", static_cast<Element>(14), {1}, "abcdefgh"))),
      building("3.tensor.rank_9", with(tensor("w", f32, {1, 1, 1, 1, 1, 1, 1, 1, 1}, "abcd"))),
      building("3.tensor.twice", with(zeros("w", {1}) + zeros("w", {1}))),
      building("3.conv.weights_of_other_channels", convolving(zeros("w", {8, 3, 3, 3}))),
      building("3.conv.kernel_shape_differs", convolving(zeros("w", {8, 4, 3, 3}), integers("kernel_shape", {5, 5}))),
      building("3.conv.groups_do_not_divide", convolving(zeros("w", {8, 4, 3, 3}), integer("group", 3))),
      building("3.conv.groups_negative", convolving(zeros("w", {8, 4, 3, 3}), integer("group", -1))),
      building("3.conv.groups_zero", convolving(zeros("w", {8, 4, 3, 3}), integer("group", 0))),
      building("3.conv.bias_of_other_length", convolving(zeros("w", {8, 4, 3, 3}), "", zeros("b", {7}))),
      building("3.conv.strides_zero", convolving(zeros("w", {8, 4, 3, 3}), integers("strides", {0, 1}))),
      building("3.conv.strides_huge", convolving(zeros("w", {8, 4, 3, 3}), integers("strides", {1, lowest}))),
      building("3.conv.dilations_huge",
               convolving(zeros("w", {8, 4, 3, 3}), integers("dilations", {int64_t{1} << 62, 1}))),
      building("3.conv.pads_huge",
               convolving(zeros("w", {8, 4, 3, 3}), integers("pads", {int64_t{1} << 62, 0, int64_t{1} << 62, 0}))),
      building("3.conv.pads_too_few", convolving(zeros("w", {8, 4, 3, 3}), integers("pads", {1, 1}))),
      building("3.conv.attribute_of_other_kind", convolving(zeros("w", {8, 4, 3, 3}), text("strides", "2"))),

      building("5.size.product_overflows", with(tensor("w", f32, {int64_t{1} << 32, int64_t{1} << 32}, "abcd"))),
      building("5.size.bytes_overflow", with(tensor("w", f32, {int64_t{1} << 62}, "abcd"))),
      building("5.size.negative", with(tensor("w", f32, {-1}, "abcd"))),
      building("5.size.lowest", with(tensor("w", f32, {lowest}, "abcd"))),
      building("5.size.input_overflows",
               model(input("x", {int64_t{1} << 40, int64_t{1} << 40}) + node("r", "Relu", {"x"}, {"y"}) + output("y")),
               {"--max-memory", "1G"}),
      building("5.size.input_huge",
               model(input("x", {int64_t{1} << 40}) + node("r", "Sin", {"x"}, {"y"}) + output("y")),
               {"--max-memory", "1G"}),
      building("5.size.given_overflows", model(input("x", {-1, -2}) + node("r", "Relu", {"x"}, {"y"}) + output("y")),
               {"--shapes", "x:9000000000000x9000000000000", "--max-memory", "1G"}),
      building("5.size.reshape_lowest", reshaping({lowest, -1})),
      building("5.size.reshape_two_unknown", reshaping({-1, -1})),
      building("5.size.reshape_does_not_divide", reshaping({3, -1})),
      building("5.size.reshape_overflows", reshaping({int64_t{1} << 32, int64_t{1} << 32})),
      building("5.size.transpose_axes",
               model(input("x", {1, 4}) +
                     node("t", "Transpose", {"x"}, {"y"}, integers("perm", {0, int64_t{1} << 40})) + output("y"))),
      building("5.size.softmax_axis",
               model(input("x", {1, 4}) + node("s", "Softmax", {"x"}, {"y"}, integer("axis", lowest)) + output("y"))),
  };
}

}  // namespace tenon::errors

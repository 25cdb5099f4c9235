// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::resize {
namespace {

void drop_empty(NodeImport& node, size_t input) {
  const Tensor* constant = node.has(input) ? node.graph().constant(node.input(input)) : nullptr;
  if (constant && constant->dtype() != DType::string && constant->elements() == 0) node.inputs[input] = ir::no_value;
}

void resize_10(NodeImport& node) {
  const std::string mode = node.text("mode", "nearest");
  const ir::ValueId scales = node.input(1);
  node.op = "Resize";
  node.inputs = {node.input(0), ir::no_value, scales};
  node.attributes = {{"mode", std::string(mode == "bilinear" ? "linear" : mode)},
                     {"coordinate_transformation_mode", std::string("asymmetric")},
                     {"nearest_mode", std::string("floor")}};
  node.emit();
}

// Opset 10 has scales only. From 11 on, an empty tensor stands for an absent input.
void resize(NodeImport& node) {
  if (node.opset < 11) return resize_10(node);
  for (size_t input = 1; input <= 3; ++input) drop_empty(node, input);
  if (node.opset < 18 && node.has(2) && node.has(3)) node.inputs[2] = ir::no_value;
  if (node.text("coordinate_transformation_mode", "") == "tf_half_pixel_for_nn") {
    // Dropped in opset 13: nearest with floor at half-pixel centres without the offset of one half.
    node.unsupported("coordinate_transformation_mode tf_half_pixel_for_nn");
  }
  while (!node.inputs.empty() && node.inputs.back() == ir::no_value) node.inputs.pop_back();
  node.emit();
}
TENON_IMPORT(resize, "Resize");

// Upsample samples like Resize of opset 10; the scales are attributes up to opset 8.
void upsample(NodeImport& node) {
  if (node.opset < 9) {
    std::vector<float> scales = node.real_list("scales");
    if (node.has_attribute("height_scale")) scales = {1, 1, node.real("height_scale", 1), node.real("width_scale", 1)};
    if (scales.empty()) node.fail("attribute 'scales' is missing");
    node.set_input(1, node.constant(Tensor::of<float>(DType::f32, Dims{static_cast<int64_t>(scales.size())}, scales)));
  }
  resize_10(node);
}
TENON_IMPORT(upsample, "Upsample");
TENON_FORMER("Upsample", {ops::attr::real("height_scale").up_to(6).required(),
                          ops::attr::text("mode").one_of({"nearest", "linear", "bilinear"}),
                          ops::attr::reals("scales").from(7).up_to(8).required(),
                          ops::attr::real("width_scale").up_to(6).required()});

}  // namespace
}  // namespace tenon::onnx::resize

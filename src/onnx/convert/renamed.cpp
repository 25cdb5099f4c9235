// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

/// Ops whose old form differs by a name, a default or one attribute.
namespace tenon::onnx::renamed {
namespace {

void scatter(NodeImport& node) {
  node.op = "ScatterElements";
  node.emit();
}
TENON_IMPORT(scatter, "Scatter");
TENON_FORMER("Scatter", {ops::attr::integer("axis")});

// Opset 20 renames the modes.
void grid_sample(NodeImport& node) {
  const std::string mode = node.text("mode", "linear");
  if (mode == "bilinear") node.attributes["mode"] = std::string("linear");
  if (mode == "bicubic") node.attributes["mode"] = std::string("cubic");
  node.emit();
}
TENON_IMPORT(grid_sample, "GridSample");

// Opset 16 adds the shift by half a pixel and makes it the default.
void roi_align(NodeImport& node) {
  if (node.opset < 16) node.attributes["coordinate_transformation_mode"] = std::string("output_half_pixel");
  node.emit();
}
TENON_IMPORT(roi_align, "RoiAlign");

// Up to opset 19 the axis is an attribute, by default 1.
void dft(NodeImport& node) {
  if (node.opset < 20) {
    const int64_t axis = node.integer("axis", 1);
    node.drop({"axis"});
    node.set_input(2, node.scalar(axis));
  }
  node.emit();
}
TENON_IMPORT(dft, "DFT");

// In opset 1 the shape is an attribute.
void reshape(NodeImport& node) {
  if (node.opset < 5) {
    node.set_input(1, node.integers(node.integer_list("shape")));
    node.drop({"shape", "consumed_inputs"});
  }
  node.emit();
}
TENON_IMPORT(reshape, "Reshape");

void concat(NodeImport& node) {
  if (node.opset < 4 && !node.has_attribute("axis")) node.attributes["axis"] = int64_t{1};
  node.emit();
}
TENON_IMPORT(concat, "Concat");

// In opset 1 the power is a number with a fraction.
void lp(NodeImport& node) {
  if (node.opset < 2 && node.has_attribute("p")) node.attributes["p"] = static_cast<int64_t>(node.real("p", 2));
  node.emit();
}
TENON_IMPORT(lp, "LpPool", "GlobalLpPool");

}  // namespace
}  // namespace tenon::onnx::renamed

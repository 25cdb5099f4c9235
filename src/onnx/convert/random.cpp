// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::random {
namespace {

// A node without a seed gets one by its name, so that two of them never count as one.
void convert(NodeImport& node) {
  if (!node.has_attribute("seed")) {
    uint32_t hash = 2166136261u;  // Fowler, Noll and Vo
    for (char c : node.label()) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    node.attributes["seed"] = static_cast<float>(hash >> 8);
  }
  node.emit();
}
TENON_IMPORT(convert, "RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Bernoulli",
             "Multinomial");

}  // namespace
}  // namespace tenon::onnx::random

// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::transpose {
namespace {

// PyTorch's exporter writes axes that count from the end, as those of other ops may.
void convert(NodeImport& node) {
  if (node.has_attribute("perm")) {
    std::vector<int64_t> perm = node.integer_list("perm");
    const auto rank = static_cast<int64_t>(perm.size());
    for (int64_t& axis : perm)
      if (axis < 0 && axis >= -rank) axis += rank;
    node.attributes["perm"] = perm;
  }
  node.emit();
}
TENON_IMPORT(convert, "Transpose");

}  // namespace
}  // namespace tenon::onnx::transpose

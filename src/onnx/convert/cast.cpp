// SPDX-License-Identifier: Apache-2.0
#include <cctype>

#include "onnx/convert.h"

namespace tenon::onnx::cast {
namespace {

int64_t type_named(NodeImport& node, std::string name) {
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  static constexpr const char* names[] = {"UNDEFINED", "FLOAT",  "UINT8", "INT8",    "UINT16", "INT16",  "INT32",
                                          "INT64",     "STRING", "BOOL",  "FLOAT16", "DOUBLE", "UINT32", "UINT64"};
  for (int64_t at = 1; at < 14; ++at)
    if (name == names[at]) return at;
  node.fail("attribute 'to' names no element type: " + name);
}

// Up to opset 5 the type is a word.
void convert(NodeImport& node) {
  if (node.opset < 6) {
    node.attributes["to"] = type_named(node, node.text("to", ""));
  } else if (!node.has_attribute("to")) {
    node.fail("attribute 'to' is missing");
  }
  if (node.integer("to", 0) == 0) node.fail("to is 0, the number of no element type");
  node.emit();
}
TENON_IMPORT(convert, "Cast");

}  // namespace
}  // namespace tenon::onnx::cast

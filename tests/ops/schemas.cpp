// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "onnx/convert.h"
#include "ops/op.h"

/// Prints for every ONNX op "op inputs inputs outputs outputs", the least and the most that a model may give it, -1 for
/// any number; and its attributes: "op attribute type since until required", one a line, for schemas.py.
namespace {

void print(const std::string& op, const tenon::ops::AttributeDefs& attributes) {
  static const char* const types[] = {"INT", "FLOAT", "STRING", "INTS", "FLOATS", "STRINGS", "TENSOR", "GRAPH"};
  std::printf("%s\n", op.c_str());
  for (const tenon::ops::AttributeDef& attribute : attributes)
    if (!attribute.is_internal)
      std::printf("%s %s %s %d %d %d\n", op.c_str(), attribute.name.c_str(), types[static_cast<int>(attribute.type)],
                  attribute.since, attribute.until, attribute.is_required);
}

}  // namespace

int main() {
  for (const tenon::ops::OpDef* op : tenon::ops::all()) {
    if (!op->id.domain().empty()) continue;
    const int standard = op->traits.standard_inputs();
    std::printf("%s %d %d %d %d\n", op->id.str().c_str(), op->min_inputs, standard < 0 ? op->max_inputs : standard,
                op->min_outputs, op->max_outputs);
    print(op->id, op->attributes);
  }
  for (const char* former : {"Constant", "Scatter", "Upsample"}) print(former, *tenon::onnx::attributes_of(former));
}

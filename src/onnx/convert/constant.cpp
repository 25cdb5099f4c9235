// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"
#include "onnx/convert.h"

namespace tenon::onnx::constant {
namespace {

template <class T>
Tensor list(DType type, const std::vector<T>& values) {
  return Tensor::of<T>(type, Dims{static_cast<int64_t>(values.size())}, values);
}

Tensor value_of(NodeImport& node) {
  if (node.attributes.size() > 1)
    node.fail("it has " + counted(node.attributes.size(), "value") + ", " + node.attributes.begin()->first + " and " +
              node.attributes.rbegin()->first);
  for (const auto& [name, attribute] : node.attributes) {
    if (name == "value" || name == "sparse_value") {
      if (const Tensor* tensor = std::get_if<Tensor>(&attribute)) return *tensor;
      node.fail("attribute '" + name + "' is no tensor");
    }
    if (name == "value_float") {
      const float value = node.real(name, 0);
      return Tensor::of<float>(DType::f32, Dims{}, std::span<const float>(&value, 1));
    }
    if (name == "value_int") {
      const int64_t value = node.integer(name, 0);
      return Tensor::of<int64_t>(DType::i64, Dims{}, std::span<const int64_t>(&value, 1));
    }
    if (name == "value_string") return Tensor::of_strings(Dims{}, {node.text(name, "")});
    if (name == "value_floats") return list(DType::f32, node.real_list(name));
    if (name == "value_ints") return list(DType::i64, node.integer_list(name));
    if (name == "value_strings") {
      const auto* strings = std::get_if<std::vector<std::string>>(&attribute);
      if (!strings) node.fail("attribute '" + name + "' is no list of texts");
      return Tensor::of_strings(Dims{static_cast<int64_t>(strings->size())}, *strings);
    }
  }
  node.fail("it has no value");
}

void convert(NodeImport& node) {
  if (!node.wants(0)) return;
  node.bind(0, node.named_constant(0, value_of(node)));
}
TENON_IMPORT(convert, "Constant");
TENON_FORMER("Constant", {ops::attr::tensor("sparse_value").from(11), ops::attr::tensor("value").up_to(10).required(),
                          ops::attr::tensor("value").from(11), ops::attr::real("value_float").from(12),
                          ops::attr::reals("value_floats").from(12), ops::attr::integer("value_int").from(12),
                          ops::attr::integers("value_ints").from(12), ops::attr::text("value_string").from(12),
                          ops::attr::texts("value_strings").from(12)});

}  // namespace
}  // namespace tenon::onnx::constant

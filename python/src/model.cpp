// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "onnx/import.h"
#include "ops/op.h"
#include "session.h"

namespace tenon::python {
namespace {

ir::Graph read(nb::handle model, const onnx::ImportOptions& how) {
  if (nb::isinstance<nb::str>(model)) {
    const auto path = nb::cast<std::string>(model);
    const nb::gil_scoped_release free;
    return onnx::import_file(path, how);
  }
  const auto bytes = nb::cast<nb::bytes>(model);
  const std::span view(reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size());
  const nb::gil_scoped_release free;
  return onnx::import_bytes(view, how.external_root, "a model in memory", nullptr, how);
}

TensorInfo info_of(const ir::Value& value, const std::string& name) {
  TensorInfo info{name, value.dtype, {}};
  if (value.shape)
    for (const ir::Dim& dim : *value.shape) info.shape.push_back(dim.is_constant() ? dim.value() : -1);
  return info;
}

std::vector<TensorInfo> inputs_of(const ir::Graph& graph) {
  std::vector<TensorInfo> infos;
  for (const ir::ValueId id : graph.inputs) infos.push_back(info_of(graph.value(id), graph.value(id).name));
  return infos;
}

nb::list names_of(const ir::Graph& graph, const std::vector<ir::ValueId>& ids) {
  nb::list names;
  for (const ir::ValueId id : ids) names.append(id < 0 ? nb::str("") : nb::str(graph.value(id).name.c_str()));
  return names;
}

/// A model as it is read: inputs, outputs, nodes with the types of what they give; what cannot be inferred is missing.
nb::dict model_graph(nb::handle model, const std::string& external_root) {
  onnx::ImportOptions how;
  how.external_root = external_root;
  ir::Graph graph = read(model, how);
  try {
    ops::infer(graph);
  } catch (const Error&) {
    // What is wrong with it is the build's to say.
  }
  std::vector<TensorInfo> outputs;
  for (size_t at = 0; at < graph.outputs.size(); ++at)
    outputs.push_back(info_of(graph.value(graph.outputs[at]), graph.output_names[at]));
  nb::list nodes;
  for (const ir::Node& node : graph.nodes) {
    if (!node.alive) continue;
    nb::dict entry;
    entry["name"] = nb::str(node.label().c_str());
    entry["op"] = nb::str(node.op.str().c_str());
    entry["inputs"] = names_of(graph, node.inputs);
    std::vector<TensorInfo> given;
    for (const ir::ValueId id : node.outputs)
      if (id >= 0) given.push_back(info_of(graph.value(id), graph.value(id).name));
    entry["outputs"] = given;
    nodes.append(entry);
  }
  nb::dict dict;
  dict["inputs"] = inputs_of(graph);
  dict["outputs"] = outputs;
  dict["nodes"] = nodes;
  return dict;
}

}  // namespace

std::vector<TensorInfo> stated_inputs(nb::handle model, const std::string& external_root, bool lenient) {
  onnx::ImportOptions how;
  how.external_root = external_root;
  how.lenient = lenient;
  return inputs_of(read(model, how));
}

void bind_models(nb::module_& module) {
  module.def("stated_inputs", &stated_inputs, nb::arg("model"), nb::arg("external_root") = "",
             nb::arg("lenient") = false,
             nb::sig("def stated_inputs(model: str | bytes, external_root: str = \"\", lenient: bool = False) -> "
                     "list[TensorInfo]"));
  module.def("model_graph", &model_graph, nb::arg("model"), nb::arg("external_root") = "",
             nb::sig("def model_graph(model: str | bytes, external_root: str = \"\") -> dict[str, typing.Any]"));
}

}  // namespace tenon::python

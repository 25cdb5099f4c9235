// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "ir/graph.h"

namespace tenon::onnx {

/// Says whether an op can be run; the default asks tenon::ops::find. Ops of the internal domain never can.
using Knows = std::function<bool(const ir::OpId& op)>;

/// A node as the file has it: `name` is the origin of what it becomes. `inside`: the node whose subgraph it is in.
struct Listed {
  std::string name, op, inside;
};

/// How a model is read.
struct ImportOptions {
  std::string external_root = {};  // folder that external data may lie in, beside the model's own
  /// An attribute that the standard does not give to an op is left out and told to `warn`, instead of refused.
  bool lenient = false;
  std::function<void(const std::string&)> warn = {};
  Knows knows = {};
  std::vector<Listed>* nodes = nullptr;  // gets every node of the file, those that become constants included
  Files* files = nullptr;                // gets the files that tensors may refer to
};

/// Reads an ONNX file (opset 7 to 25; 1 to 6 as far as the forms agree) into a graph of present-day ops; initializers
/// are views of the mapped file where alignment allows. External data is read only from inside the model's folder;
/// where the model itself is a symbolic link, as in the Hugging Face cache, also through links into the folder that the
/// model lies in; and from inside `external_root` where given. Every attribute is checked against its op before
/// anything reads it. Nothing is inferred or folded yet. Optional tensors have the type of what they hold; optional
/// sequences are sequences. Throws Error(invalid_model) with the byte offset or naming the node, Error(unsupported)
/// listing every unsupported op with counts and node names, Error(io).
ir::Graph import_file(const std::string& path, const ImportOptions& options = {});
/// The same from memory; `folder` is where external data lies ("" refuses it), `name` is used in messages. Without
/// `keep`, elements are copied.
ir::Graph import_bytes(std::span<const std::byte> bytes, const std::string& folder, const std::string& name,
                       std::shared_ptr<const void> keep = nullptr, const ImportOptions& options = {});
/// Reads one serialised TensorProto (a .pb file of a test data set), or an OptionalProto of a tensor (empty tensor when
/// it holds none).
Tensor read_tensor(std::span<const std::byte> bytes, const std::string& name);
/// The same; with `is_sequence` a SequenceProto, or an OptionalProto of a sequence, as a tensor of type sequence.
Tensor read_value(std::span<const std::byte> bytes, const std::string& name, bool is_sequence);

}  // namespace tenon::onnx

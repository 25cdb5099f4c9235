#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "ir/graph.h"

namespace tenon::onnx {

/// Reads an ONNX file (opset 7 to 25) into a graph of present-day ops; initializers are views of the mapped file where alignment allows.
/// External data is read only from inside the model's folder. Nothing is inferred or folded yet.
/// Throws Error(invalid_model) with the byte offset, Error(unsupported) listing every unsupported op with counts and node names, Error(io).
ir::Graph import_file(const std::string& path);
/// The same from memory; `folder` is where external data lies ("" refuses it), `name` is used in messages.
ir::Graph import_bytes(std::span<const std::byte> bytes, const std::string& folder, const std::string& name,
                       std::shared_ptr<const void> keep = nullptr);
/// Reads one serialised TensorProto (a .pb file of a test data set); also SequenceProto and OptionalProto where `type` says so.
Tensor read_tensor(std::span<const std::byte> bytes, const std::string& name);

}  // namespace tenon::onnx

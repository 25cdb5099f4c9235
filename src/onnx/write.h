// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>

#include "base/file.h"
#include "ir/graph.h"

namespace tenon::onnx {

/// Writes a graph of ONNX's own ops as a model file: opset 21, IR version 10, constants as initializers with raw data,
/// nothing held in memory beside the graph. The file appears under its name when it is whole, and unless one of those
/// that its weights are in was changed meanwhile.
/// Throws Error(unsupported) for an op that is ours alone, subgraphs, and models above protobuf's 2 GB; Error(io).
void write_file(const ir::Graph& graph, const std::string& path, const Files& files = {});

/// The same to a stream that is open; `path` is how errors name it. Bytes written.
int64_t write(const ir::Graph& graph, std::FILE* file, const std::string& path);

}  // namespace tenon::onnx

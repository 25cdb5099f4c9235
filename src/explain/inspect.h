// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <nlohmann/json.hpp>
#include <string>

#include "ir/graph.h"

/// What a model or an engine holds.
namespace tenon::explain {

/// Of a graph: its ends, its ops by count, its constants.
nlohmann::ordered_json summary(const ir::Graph& graph);
std::string summary_text(const nlohmann::ordered_json& summary);

/// Of an engine: what it was built for, the kernels it chose, and the memory a session of so many threads takes.
nlohmann::ordered_json inspection(const Engine& engine, int threads);
enum class Steps : bool { left_out, printed };
/// The same for reading; with the steps its graph, too, and what runs in each profile, at its best sizes.
std::string inspection_text(const Engine& engine, const nlohmann::ordered_json& inspection, Steps steps, int threads);

/// What a session takes on a GPU beside its arena and weights, and in all.
nlohmann::ordered_json device_memory(const MemoryUse& memory);
/// The same as words: "inputs 4.9 MB, workspace 0 B: 12.3 MB on the GPU".
std::string device_memory_text(const nlohmann::ordered_json& memory);

}  // namespace tenon::explain

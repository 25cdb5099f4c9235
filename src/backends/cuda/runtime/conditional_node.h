// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "backends/cuda/runtime/driver.h"

/// Nodes of a captured graph that run a graph of their own if, or as long as, a kernel has set their condition.
namespace tenon::cuda {

/// Whether the driver has them: from CUDA 12.4 on.
bool has_conditional_nodes();

enum class Repeat : uint8_t { once, while_set };

/// A condition in the graph that the stream captures.
uint64_t make_condition(Stream stream);
/// Puts a node behind what the stream has captured. `body` puts on the stream that it is given what the node runs.
void add_conditional_node(Stream stream, uint64_t condition, Repeat repeat, const std::function<void(Stream)>& body);

}  // namespace tenon::cuda

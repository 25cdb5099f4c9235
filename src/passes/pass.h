// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tenon::passes {

/// A rewrite of the graph. It may leave dead nodes and values without types: the driver cleans, infers and verifies
/// after each pass.
struct Pass {
  const char* name;
  const char* says;                  // one sentence, shown by `inspect --passes`
  bool (*run)(ir::Graph& graph);     // true when it changed something
};

/// What a pass did, for inspect and the build report.
struct PassRecord {
  std::string name;
  bool changed;
  size_t nodes_before, nodes_after;
  double milliseconds;
  std::vector<std::string> gone;  // ONNX nodes that no node stands for any more
};

/// The passes in order; see pipeline.cpp.
const std::vector<Pass>& pipeline();
/// The passes that come once all scales are in the graph.
const std::vector<Pass>& lowering();
/// The passes before those in a build for a GPU that multiplies 8-bit floats.
const std::vector<Pass>& for_float8();
/// The passes that come last in a build for a GPU.
const std::vector<Pass>& for_gpu();
/// Behind the casts of a build in 16 bits.
const std::vector<Pass>& for_16_bits();
/// The passes behind those, for kernels of whole attentions.
const std::vector<Pass>& for_attention();
/// Runs the pipeline; `skip` holds names to leave out. Throws Error(usage) for a name in `skip` that is of no pass.
std::vector<PassRecord> optimise(ir::Graph& graph, const std::vector<std::string>& skip = {});
/// The passes around the lowering in a build for the CPU.
const std::vector<Pass>& before_host();
const std::vector<Pass>& for_host();
/// Runs the lowering likewise.
std::vector<PassRecord> lower(ir::Graph& graph, const std::vector<std::string>& skip = {});
/// Runs the passes for 8-bit floats likewise.
std::vector<PassRecord> lower_floats(ir::Graph& graph, const std::vector<std::string>& skip = {});
/// Runs the passes for GPUs likewise.
std::vector<PassRecord> adapt_to_gpu(ir::Graph& graph, const std::vector<std::string>& skip = {});
/// Runs the lowering and what a build for the CPU adds to it.
std::vector<PassRecord> lower_for_host(ir::Graph& graph, const std::vector<std::string>& skip = {});
/// Runs the passes for attention likewise.
std::vector<PassRecord> join_attention(ir::Graph& graph, const std::vector<std::string>& skip = {});
/// The same, then gives products the kernels of convolutions, which round to tf32 in more shapes.
std::vector<PassRecord> round_products(ir::Graph& graph, const std::vector<std::string>& skip = {});
/// The same as for attention, then computes large layers in f16 or bf16.
std::vector<PassRecord> cast_to_16_bits(ir::Graph& graph, DType type, const std::vector<std::string>& skip = {});
/// Widens a graph for a GPU and takes apart what only GPUs have kernels for.
void return_to_cpu(ir::Graph& graph);
/// Products whose weights alone are integers: with these, or in f32.
enum class WeightOnly : uint8_t { kept, in_f32 };
/// Gives weights the types that kernels of other devices take.
std::vector<PassRecord> leave_host(ir::Graph& graph, WeightOnly weight_only, const std::vector<std::string>& skip = {});
/// Runs a pass that is no part of the list, with the driver's chores.
PassRecord run_pass(ir::Graph& graph, const Pass& pass);
/// Runs one pass by name with the driver's chores (for tests and inspect).
PassRecord run_pass(ir::Graph& graph, const std::string& name);

}  // namespace tenon::passes

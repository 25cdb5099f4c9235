// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "stream.h"

/// Captured graphs: lists of work, in which a conditional node holds a list of its own.
namespace tenon::ptx_emulator {
namespace {

constexpr int not_supported = 801;

Work* work_of(cuda::CapturedGraph graph) { return reinterpret_cast<Work*>(graph); }

}  // namespace

extern "C" {

int cuStreamBeginCapture_v2(cuda::Stream, int) { return begin_recording(new Work), 0; }
int cuStreamEndCapture(cuda::Stream, cuda::CapturedGraph* graph) {
  return *graph = reinterpret_cast<cuda::CapturedGraph>(end_recording()), 0;
}
int cuStreamGetCaptureInfo_v3(cuda::Stream, int* status, unsigned long long* id, cuda::CapturedGraph* graph,
                              const cuda::GraphNode** nodes, const cuda::GraphEdge** edges, size_t* count) {
  *status = 1, *id = 1, *nodes = nullptr, *edges = nullptr, *count = 0;
  return *graph = reinterpret_cast<cuda::CapturedGraph>(recording()), 0;
}
int cuStreamUpdateCaptureDependencies_v2(cuda::Stream, cuda::GraphNode*, const cuda::GraphEdge*, size_t, unsigned) {
  return 0;
}
/// What is captured into a conditional node's graph: the one around it goes on at the end.
int cuStreamBeginCaptureToGraph(cuda::Stream, cuda::CapturedGraph graph, const cuda::GraphNode*, const cuda::GraphEdge*,
                                size_t, int) {
  return begin_recording(work_of(graph)), 0;
}
/// A condition is the address of a word, which lives as long as the process.
int cuGraphConditionalHandleCreate(uint64_t* handle, cuda::CapturedGraph, cuda::Context, unsigned value, unsigned) {
  static std::mutex mutex;
  static std::deque<uint64_t> conditions;
  const std::lock_guard lock(mutex);
  return *handle = reinterpret_cast<uint64_t>(&conditions.emplace_back(value)), 0;
}
int cuGraphAddNode_v2(cuda::GraphNode* node, cuda::CapturedGraph graph, const cuda::GraphNode*, const cuda::GraphEdge*,
                      size_t, cuda::GraphNodeParams* params) {
  if (params->type != cuda::constants::node_conditional || params->bodies != 1) return not_supported;
  const auto body = std::make_shared<Work>();
  const auto graphs = std::make_shared<cuda::CapturedGraph>(reinterpret_cast<cuda::CapturedGraph>(body.get()));
  const auto* condition = reinterpret_cast<const uint64_t*>(params->condition);
  const bool repeats = params->repeats == cuda::constants::conditional_while;
  work_of(graph)->push_back([=]() {
    static_cast<void>(graphs);
    while (*condition) {
      if (const int result = replay(*body)) return result;
      if (!repeats) break;
    }
    return 0;
  });
  params->graphs = graphs.get();
  return *node = reinterpret_cast<cuda::GraphNode>(body.get()), 0;
}
int cuGraphInstantiateWithFlags(cuda::GraphExec* exec, cuda::CapturedGraph graph, unsigned long long) {
  return *exec = reinterpret_cast<cuda::GraphExec>(new Work(*work_of(graph))), 0;
}
int cuGraphDestroy(cuda::CapturedGraph graph) { return delete work_of(graph), 0; }
int cuGraphExecDestroy(cuda::GraphExec exec) { return delete reinterpret_cast<Work*>(exec), 0; }
int cuGraphLaunch(cuda::GraphExec exec, cuda::Stream) { return replay(*reinterpret_cast<const Work*>(exec)); }

}  // extern "C"

}  // namespace tenon::ptx_emulator

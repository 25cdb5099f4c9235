// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/conditional_node.h"

#include "backends/cuda/runtime/timing.h"

namespace tenon::cuda {
namespace {

constexpr int least_version = 12040;

/// Where a stream that captures stands in its graph.
struct Position {
  explicit Position(Stream stream) {
    int status = 0;
    unsigned long long id = 0;
    check(driver().StreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count),
          "cuStreamGetCaptureInfo");
  }
  CapturedGraph graph = nullptr;
  const GraphNode* nodes = nullptr;
  const GraphEdge* edges = nullptr;
  size_t count = 0;
};

}  // namespace

bool has_conditional_nodes() {
  const Driver& d = driver();
  return d.why.empty() && d.version >= least_version && d.CtxGetCurrent && d.StreamGetCaptureInfo &&
         d.StreamUpdateCaptureDependencies && d.StreamBeginCaptureToGraph && d.GraphConditionalHandleCreate &&
         d.GraphAddNode;
}

uint64_t make_condition(Stream stream) {
  uint64_t condition = 0;
  Context context = nullptr;
  check(driver().CtxGetCurrent(&context), "cuCtxGetCurrent");
  check(driver().GraphConditionalHandleCreate(&condition, Position(stream).graph, context, 0, 0),
        "cuGraphConditionalHandleCreate");
  return condition;
}

void add_conditional_node(Stream stream, uint64_t condition, Repeat repeat, const std::function<void(Stream)>& body) {
  const Driver& d = driver();
  GraphNodeParams params{};
  params.type = constants::node_conditional;
  params.condition = condition;
  params.repeats = repeat == Repeat::while_set ? constants::conditional_while : constants::conditional_if;
  params.bodies = 1;
  check(d.CtxGetCurrent(&params.context), "cuCtxGetCurrent");
  const Position before(stream);
  GraphNode node = nullptr;
  check(d.GraphAddNode(&node, before.graph, before.nodes, before.edges, before.count, &params), "cuGraphAddNode");
  check(d.StreamUpdateCaptureDependencies(stream, &node, nullptr, 1, constants::capture_set_dependencies),
        "cuStreamUpdateCaptureDependencies");
  const Clock inner;
  check(d.StreamBeginCaptureToGraph(inner.stream(), params.graphs[0], nullptr, nullptr, 0,
                                    constants::capture_thread_local),
        "cuStreamBeginCaptureToGraph");
  CapturedGraph graph = nullptr;
  try {
    body(inner.stream());
  } catch (...) {
    d.StreamEndCapture(inner.stream(), &graph);
    throw;
  }
  check(d.StreamEndCapture(inner.stream(), &graph), "cuStreamEndCapture");
}

}  // namespace tenon::cuda

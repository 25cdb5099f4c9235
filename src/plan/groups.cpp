// SPDX-License-Identifier: Apache-2.0
#include "passes/groups.h"

#include "backends/backend.h"
#include "plan/plan.h"

namespace tenon::plan {
namespace {

/// A graph with all its groups as nodes, and what was measured of them.
struct Grouped {
  ir::Graph graph;
  std::vector<ir::NodeId> groups;
  std::map<ir::NodeId, Record> records;  // of some
};

Grouped grouped(const ir::Graph& graph, const Plan& plan) {
  const backends::Backend& backend = backends::backend(plan.device);
  const std::vector<passes::Group> groups = passes::groups_of(graph, backend.groups());
  Grouped found;
  if (groups.empty() || plan.records.empty()) return found;
  const bool here = backend.has(plan.device);
  found.graph = passes::with_groups(graph, groups);
  const Layout layout = lay_out(found.graph, false, false);
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(found.graph.nodes.size()); ++id) {
    if (!found.graph.node(id).members) continue;
    found.groups.push_back(id);
    const backends::Problem problem = problem_of(found.graph, id, layout, plan.threads, plan);
    const Record* record = record_of(plan, problem);
    if (!record) continue;
    // A kernel that no longer takes it stands for nothing.
    const bool taken =
        record->kernel == unfused || !here || backend.choose(problem, plan.device, record->kernel) == record->kernel;
    if (taken) found.records[id] = *record;
  }
  return found;
}

}  // namespace

std::map<std::string, Record> group_records(const ir::Graph& graph, const Plan& plan) {
  const Grouped found = grouped(graph, plan);
  std::map<std::string, Record> named;
  for (const auto& [id, record] : found.records)
    named[found.graph.value(found.graph.node(id).outputs.back()).name] = record;
  return named;
}

ir::Graph device_graph(ir::Graph graph, const Plan& plan) {
  Grouped found = grouped(graph, plan);
  bool any = false;
  for (const ir::NodeId id : found.groups) {
    const auto record = found.records.find(id);
    if (record == found.records.end() || record->second.kernel == unfused) passes::take_apart(found.graph, id);
    else any = true;
  }
  if (!any) return graph;
  found.graph.tidy();
  return std::move(found.graph);
}

}  // namespace tenon::plan

// SPDX-License-Identifier: Apache-2.0
#include "passes/groups.h"

#include "backends/backend.h"
#include "plan/plan.h"

namespace tenon::plan {

std::map<std::string, Record> group_records(const ir::Graph& graph, const Plan& plan) {
  const backends::Backend& backend = backends::backend(plan.device);
  std::map<std::string, Record> found;
  const std::vector<passes::Group> groups = passes::groups_of(graph, backend.groups());
  if (groups.empty() || plan.records.empty()) return found;
  std::set<std::string> results;
  for (const passes::Group& group : groups) results.insert(passes::result_of(graph, group));
  const ir::Graph fused = passes::with_groups(graph, groups);
  const Layout layout = lay_out(fused, false, false);
  for (const ir::Value& value : fused.values)
    if (results.count(value.name))
      if (const Record* record = record_of(plan, problem_of(fused, value.producer, layout, plan.threads, plan)))
        found[value.name] = *record;
  return found;
}

std::vector<passes::Group> chosen_groups(const ir::Graph& graph, const Plan& plan) {
  const std::map<std::string, Record> records = group_records(graph, plan);
  if (records.empty()) return {};
  std::vector<passes::Group> groups = passes::groups_of(graph, backends::backend(plan.device).groups());
  std::erase_if(groups, [&](const passes::Group& group) {
    const auto record = records.find(passes::result_of(graph, group));
    return record == records.end() || record->second.kernel == unfused;
  });
  return groups;
}

ir::Graph device_graph(ir::Graph graph, const Plan& plan) {
  const std::vector<passes::Group> groups = chosen_groups(graph, plan);
  return groups.empty() ? graph : passes::with_groups(std::move(graph), groups);
}

}  // namespace tenon::plan

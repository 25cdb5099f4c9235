#include "plan/chains.h"

namespace tenon::plan {

std::vector<Chain> chains_of(const ir::Graph& graph) {
  std::vector<Chain> chains;
  std::set<ir::NodeId> taken;
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id)
    for (const auto chain_at : {bottleneck_at, pooled_convolution_at, pool_pyramid_at})
      if (std::optional<Chain> chain = chain_at(graph, id, taken)) {
        taken.insert(chain->nodes.begin(), chain->nodes.end());
        chains.push_back(std::move(*chain));
      }
  return chains;
}

const std::string& result_of(const ir::Graph& graph, const Chain& chain) {
  return graph.value(chain.outputs.back()).name;
}

ir::Graph with_chains(ir::Graph graph, const std::vector<Chain>& chains) {
  for (const Chain& chain : chains) {
    std::vector<std::string> origins;
    for (const ir::NodeId id : chain.nodes) {
      const std::vector<std::string>& own = graph.node(id).origins;
      origins.insert(origins.end(), own.begin(), own.end());
      graph.remove(id);
    }
    graph.add_node(chain.op, chain.inputs, chain.outputs, chain.attributes, std::move(origins));
  }
  graph.tidy();
  return graph;
}

std::map<std::string, Record> chain_records(const ir::Graph& graph, const Plan& plan, const cuda::Properties* device) {
  std::map<std::string, Record> found;
  const std::vector<Chain> chains = chains_of(graph);
  if (chains.empty() || plan.records.empty()) return found;
  std::set<std::string> results;
  for (const Chain& chain : chains) results.insert(result_of(graph, chain));
  const ir::Graph fused = with_chains(graph, chains);
  const Layout layout = lay_out(fused, false, true);
  for (const ir::Value& value : fused.values)
    if (results.count(value.name))
      if (const Record* record = device_record(plan, device_problem_of(fused, value.producer, layout, plan), device))
        found[value.name] = *record;
  return found;
}

ir::Graph device_graph(ir::Graph graph, const Plan& plan, const cuda::Properties* device) {
  const std::map<std::string, Record> records = chain_records(graph, plan, device);
  if (records.empty()) return graph;
  std::vector<Chain> chains = chains_of(graph);
  std::erase_if(chains, [&](const Chain& chain) {
    const auto record = records.find(result_of(graph, chain));
    return record == records.end() || record->second.kernel == apart;
  });
  return chains.empty() ? graph : with_chains(std::move(graph), chains);
}

}  // namespace tenon::plan

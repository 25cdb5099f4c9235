#include <algorithm>
#include <set>

#include "ops/inverted_bottleneck.h"
#include "plan/plan.h"

namespace tenon::plan {
namespace {

bool is_narrow(DType type) { return type == DType::f16 || type == DType::bf16; }

/// A convolution of channels last that reads and writes one type of 16 bits.
bool is_narrow_conv(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "Conv" || node.text("layout", "") != "NHWC" || node.text("input_layout", "") == "NCHW") return false;
  const DType type = graph.value(node.inputs[0]).dtype;
  const Tensor* weights = graph.constant(node.inputs[1]);
  return weights && weights->dims().rank() == 4 && is_narrow(type) && graph.value(node.outputs[0]).dtype == type;
}

bool is_pointwise(const ir::Graph& graph, const ir::Node& node) {
  if (!is_narrow_conv(graph, node) || node.integer("group", 1) != 1) return false;
  const auto all = [&](const char* name, int64_t value) {
    const std::vector<int64_t> list = node.integers(name);
    return std::all_of(list.begin(), list.end(), [&](int64_t one) { return one == value; });
  };
  const Dims& dims = graph.constant(node.inputs[1])->dims();
  return dims[2] == 1 && dims[3] == 1 && all("strides", 1) && all("pads", 0);
}

bool is_depthwise(const ir::Graph& graph, const ir::Node& node) {
  if (!is_narrow_conv(graph, node)) return false;
  const Dims& dims = graph.constant(node.inputs[1])->dims();
  return dims[1] == 1 && node.integer("group", 1) == dims[0] && dims[0] > 1;
}

bool adds(const ir::Node& node) { return !node.text("residual", "").empty(); }

int64_t channels_of(const ir::Graph& graph, const ir::Node& node) {
  return graph.constant(node.inputs[1])->dims()[0];
}

/// Who alone reads the result and makes few channels of it.
ir::NodeId projection_of(const ir::Graph& graph, ir::NodeId id) {
  const ir::NodeId user = graph.only_user(graph.node(id).outputs[0]);
  if (user == ir::no_node || !is_pointwise(graph, graph.node(user))) return ir::no_node;
  const ir::Node& project = graph.node(user);
  const bool reads = project.inputs[0] == graph.node(id).outputs[0];
  return reads && channels_of(graph, project) <= ops::most_projected ? user : ir::no_node;
}

/// Who makes what it alone reads, of fewer channels.
ir::NodeId expansion_of(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  const ir::ValueId x = graph.node(id).inputs[0];
  const ir::NodeId maker = graph.value(x).producer;
  if (maker == ir::no_node || taken.count(maker) || graph.only_user(x) != id) return ir::no_node;
  const ir::Node& expand = graph.node(maker);
  if (!is_pointwise(graph, expand) || adds(expand)) return ir::no_node;
  return channels_of(graph, expand) > graph.constant(expand.inputs[1])->dims()[1] ? maker : ir::no_node;
}

}  // namespace

std::vector<BottleneckChain> bottlenecks_of(const ir::Graph& graph) {
  std::vector<BottleneckChain> chains;
  std::set<ir::NodeId> taken;
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id) {
    const ir::Node& depthwise = graph.node(id);
    if (!is_depthwise(graph, depthwise) || adds(depthwise)) continue;
    BottleneckChain chain{expansion_of(graph, id, taken), id, projection_of(graph, id)};
    // Of layers that widen one after the other the next one's window is better off with what comes behind it.
    if (chain.project != ir::no_node && channels_of(graph, graph.node(chain.project)) >= channels_of(graph, depthwise))
      chain.expand = ir::no_node;
    if (chain.expand == ir::no_node && chain.project == ir::no_node) continue;
    taken.insert(chain.project);
    chains.push_back(chain);
  }
  return chains;
}

ir::Graph with_bottlenecks(ir::Graph graph, const std::vector<BottleneckChain>& chains) {
  for (const BottleneckChain& chain : chains) {
    std::vector<ir::ValueId> inputs(ops::bottleneck_residual, ir::no_value);
    std::vector<std::string> origins;
    const auto take = [&](ir::NodeId id, const ops::BottleneckPart& part) {
      if (id == ir::no_node) return;
      const ir::Node& node = graph.node(id);
      inputs[part.weights] = node.inputs[1];
      if (node.inputs.size() > 2) inputs[part.weights + 1] = node.inputs[2];
      origins.insert(origins.end(), node.origins.begin(), node.origins.end());
    };
    const ir::NodeId ids[] = {chain.expand, chain.depthwise, chain.project};
    for (size_t at = 0; at < 3; ++at) take(ids[at], ops::bottleneck_parts[at]);
    const auto node = [&](ir::NodeId id) { return id == ir::no_node ? nullptr : &graph.node(id); };
    const ir::Node *expand = node(chain.expand), *depthwise = node(chain.depthwise), *project = node(chain.project);
    inputs[0] = expand ? expand->inputs[0] : depthwise->inputs[0];
    if (project && project->inputs.size() > 3) inputs.push_back(project->inputs[3]);
    const ir::ValueId result = graph.node(chain.last()).outputs[0];
    ir::Attributes attributes = ops::bottleneck_attributes(expand, depthwise, project);
    for (size_t at = 3; at-- > 0;)
      if (ids[at] != ir::no_node) graph.remove(ids[at]);
    graph.add_node("InvertedBottleneck", inputs, {result}, std::move(attributes), std::move(origins));
  }
  graph.tidy();
  return graph;
}

std::map<std::string, Record> bottleneck_records(const ir::Graph& graph, const Plan& plan,
                                                 const cuda::Properties* device) {
  std::map<std::string, Record> found;
  const std::vector<BottleneckChain> chains = bottlenecks_of(graph);
  if (chains.empty() || plan.records.empty()) return found;
  const ir::Graph fused = with_bottlenecks(graph, chains);
  const Layout layout = lay_out(fused, false, true);
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(fused.nodes.size()); ++id)
    if (fused.node(id).op == "InvertedBottleneck")
      if (const Record* record = device_record(plan, device_problem_of(fused, id, layout, plan), device))
        found[fused.value(fused.node(id).outputs[0]).name] = *record;
  return found;
}

ir::Graph device_graph(ir::Graph graph, const Plan& plan, const cuda::Properties* device) {
  const std::map<std::string, Record> records = bottleneck_records(graph, plan, device);
  if (records.empty()) return graph;
  std::vector<BottleneckChain> chains = bottlenecks_of(graph);
  std::erase_if(chains, [&](const BottleneckChain& chain) {
    const auto record = records.find(graph.value(graph.node(chain.last()).outputs[0]).name);
    return record == records.end() || record->second.kernel == apart;
  });
  return chains.empty() ? graph : with_bottlenecks(std::move(graph), chains);
}

}  // namespace tenon::plan

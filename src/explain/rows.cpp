#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>

#include "backends/cuda/kernel.h"
#include "explain/report.h"
#include "ops/op.h"
#include "plan/chains.h"

namespace tenon::explain {
namespace {

using backends::Operand;
using backends::Problem;

std::string sizes_of(const Problem& problem) {
  std::string text;
  for (const Operand& operand : problem.inputs)
    if (operand && !operand.constant) text += (text.empty() ? "" : ", ") + operand.dims.str();
  text += " ->";
  for (const Operand& operand : problem.outputs) text += operand ? " " + operand.dims.str() : " -";
  return text;
}

bool is_byte(const Operand& operand) { return operand.dtype == DType::u8 || operand.dtype == DType::i8; }

/// The arithmetic of a step, by the narrowest type among what it reads and writes.
std::string precision_of(const Problem& problem) {
  bool bytes = false, floats = false, half = false, brain = false, single = false;
  for (const auto* list : {&problem.inputs, &problem.outputs})
    for (const Operand& operand : *list) {
      bytes |= is_byte(operand);
      floats |= operand.dtype == DType::f8e4m3fn;
      half |= operand.dtype == DType::f16;
      brain |= operand.dtype == DType::bf16;
      single |= operand.dtype == DType::f32;
    }
  if (bytes) return "int8";
  if (floats) return "fp8";
  if (half) return "fp16";
  if (brain) return "bf16";
  if (single) return problem.tf32 && (problem.node->op == "Conv" || problem.node->op == "MatMul") ? "tf32" : "fp32";
  return problem.outputs.empty() ? "-" : std::string(name(problem.outputs[0].dtype));
}

/// Of the first node where a row stands for several.
bool is_product(const std::string& op) { return ops::has_trait(op.substr(0, op.find(' ')), ops::Trait::product); }

double time_of(const plan::Record& record, const std::string& kernel) {
  if (record.kernel == kernel && record.microseconds > 0) return record.microseconds;
  for (const plan::Rival& rival : record.rivals)
    if (rival.kernel == kernel) return rival.microseconds;
  return unknown;
}

/// Kernel, choices and rivals of a step on the CPU.
void weigh(Row& row, const Problem& problem, const plan::Records& records) {
  const backends::Kernel& chosen = plan::choose(problem, records);
  row.kernel = chosen.name;
  const auto record = records.find(backends::signature(problem));
  const auto measured = [&](const std::string& kernel) {
    return record == records.end() ? unknown : time_of(record->second, kernel);
  };
  row.alone = measured(chosen.name);
  for (const backends::Kernel* kernel : backends::kernels_for(problem.node->op)) {
    const char* reason = kernel->refuses(problem);
    if (!reason && kernel != &backends::reference_kernel()) ++row.choices;
    if (kernel == &chosen) continue;
    row.rivals.push_back({kernel->name, reason ? unknown : measured(kernel->name), reason ? reason : ""});
  }
}

/// The same on a GPU. Refusals are known only where the GPU is.
void weigh_on_gpu(Row& row, const Problem& problem, const plan::Plan& plan, const cuda::Properties* device) {
  if (const plan::Record* record = plan::device_record(plan, problem, device)) {
    row.kernel = record->kernel;
    row.alone = record->microseconds;
    for (const plan::Rival& rival : record->rivals) row.rivals.push_back({rival.kernel, rival.microseconds, {}});
    row.choices = static_cast<int>(row.rivals.size()) + 1;
  }
  if (!device) return;
  const cuda::Choice choice = cuda::choose(problem, *device, row.kernel);
  row.kernel = choice.kernel ? choice.tactic.name : "cpu";
  row.choices = static_cast<int>(cuda::choices(problem, *device).size());
  for (const auto& [kernel, reason] : cuda::refused(problem, *device)) row.rivals.push_back({kernel, unknown, reason});
}

const cuda::Properties* properties_for(const plan::Plan& plan, cuda::Properties& properties) {
  try {
    properties = cuda::properties_of(cuda::index_of(plan.device));
    return &properties;
  } catch (const Error&) {
    return nullptr;
  }
}

/// Times of a profile by name of the step, in order.
std::map<std::string, std::deque<double>> times_of(const std::vector<LayerTime>& layers) {
  std::map<std::string, std::deque<double>> times;
  for (const LayerTime& layer : layers) times[layer.name].push_back(layer.microseconds);
  return times;
}

/// A row and the one behind it become one where both nodes run as one step.
struct Pairing {
  const ir::Graph& graph;
  const plan::Plan& plan;
  const std::function<Problem(ir::NodeId)>& problem_of;
  std::map<ir::NodeId, Row> firsts;  // by the second node

  /// Whether the row waits for its partner.
  bool hold(ir::NodeId id, const plan::Layout& layout, Row& row) {
    const ir::NodeId second = plan::second_of_pair(graph, id);
    if (second == ir::no_node || !layout.runs[second]) return false;
    const backends::Pair pair{problem_of(id), problem_of(second)};
    const auto record = plan.records.find(backends::signature(pair));
    if (record == plan.records.end()) return false;
    if (const backends::PairKernel* kernel = plan::choose(pair, plan.records)) {
      row.kernel = kernel->name;
      row.alone = record->second.microseconds;
      row.rivals.clear();
    }
    const std::string with = " with " + graph.node(second).label();
    for (const plan::Rival& rival : record->second.rivals)
      row.rivals.push_back({rival.kernel + with, rival.microseconds, {}});
    if (row.kernel != record->second.kernel) return false;
    firsts[second] = std::move(row);
    return true;
  }
  Row join(Row& first, const Row& second) const {
    first.op += " + " + second.op;
    first.sizes = first.sizes.substr(0, first.sizes.find(" ->")) + second.sizes.substr(second.sizes.find(" ->"));
    first.origins.insert(first.origins.end(), second.origins.begin(), second.origins.end());
    return std::move(first);
  }
};

/// Beside the last node of a chain that runs apart: the fastest kernel for the whole of it.
void weigh_chain(Row& row, const ir::Graph& graph, const plan::Chain& chain,
                 const std::map<std::string, plan::Record>& records) {
  const auto record = records.find(plan::result_of(graph, chain));
  if (record == records.end() || record->second.rivals.empty()) return;
  std::string with;
  for (size_t at = chain.nodes.size() - 1; at-- > 0;)
    with += (with.empty() ? " with " : " and ") + graph.node(chain.nodes[at]).label();
  const plan::Rival& fastest = record->second.rivals.front();
  row.rivals.push_back({fastest.kernel + with, fastest.microseconds, {}});
}

void add_rows(Report& report, const plan::Plan& plan, const ir::Graph& graph, const plan::Layout& layout,
              const std::vector<LayerTime>& layers, int threads, const cuda::Properties* device) {
  auto times = times_of(layers);
  const bool gpu = plan.device != "cpu";
  if (gpu && !device) report.notes.push_back("the GPU is not here: refusals of its kernels are not shown");
  const std::function<Problem(ir::NodeId)> problem_of = [&](ir::NodeId id) {
    return gpu ? plan::device_problem_of(graph, id, layout, plan) : plan::problem_of(graph, id, layout, threads, plan);
  };
  Pairing pairing{graph, plan, problem_of, {}};
  const auto chains = gpu ? plan::chains_of(graph) : std::vector<plan::Chain>();
  const auto of_chains = gpu ? plan::chain_records(graph, plan, device) : std::map<std::string, plan::Record>();
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id) {
    if (!layout.runs[id]) continue;
    const ir::Node& node = graph.node(id);
    const Problem problem = problem_of(id);
    Row row{node.label(), node.origins, node.op, sizes_of(problem), precision_of(problem), ""};
    if (gpu) weigh_on_gpu(row, problem, plan, device);
    else weigh(row, problem, plan.records);
    for (const plan::Chain& chain : chains)
      if (chain.last() == id) weigh_chain(row, graph, chain, of_chains);
    if (row.kernel.starts_with("bf16_")) row.precision = "bf16";
    if (!gpu && pairing.hold(id, layout, row)) continue;
    if (const auto first = pairing.firsts.find(id); first != pairing.firsts.end())
      row = pairing.join(first->second, row);
    std::deque<double>& measured = times[row.op.substr(0, row.op.find(' ')) + " " + row.name];
    row.microseconds = measured.empty() ? row.alone : measured.front();
    if (!measured.empty()) measured.pop_front();
    std::stable_sort(row.rivals.begin(), row.rivals.end(), [](const Rival& a, const Rival& b) {
      return (a.microseconds < 0 ? 1e300 : a.microseconds) < (b.microseconds < 0 ? 1e300 : b.microseconds);
    });
    report.rows.push_back(std::move(row));
  }
}

/// Rows of a network whose sizes depend on its data: the profile alone.
void add_profile(Report& report, const std::vector<LayerTime>& layers) {
  report.notes.push_back("sizes depend on the data: kernels are chosen as tensors come, and rivals are not timed");
  for (const LayerTime& layer : layers) {
    const std::string op = layer.name.substr(0, layer.name.find(' '));
    Row row{layer.origins.empty() ? op : layer.origins.front(), layer.origins, op, "", "-", layer.tactic};
    row.microseconds = layer.microseconds;
    report.rows.push_back(std::move(row));
  }
}

std::set<std::string> origins_of(const ir::Graph& graph) {
  std::set<std::string> names;
  for (const ir::Node& node : graph.nodes) names.insert(node.origins.begin(), node.origins.end());
  return names;
}

/// The model's nodes; of an engine without a list of them, those that its graph names.
std::vector<plan::Source> sources_of(const plan::Plan& plan, Report& report) {
  if (!plan.sources.empty() || plan.graph.nodes.empty()) return plan.sources;
  report.notes.push_back("an earlier Tenon wrote the engine: nodes that were folded away are not listed");
  std::vector<plan::Source> sources;
  std::set<std::string> seen;
  for (const ir::Node& node : plan.graph.nodes)
    for (const std::string& origin : node.origins)
      if (seen.insert(origin).second) sources.push_back({origin, origin == node.label() ? node.op : ""});
  return sources;
}

void add_nodes(Report& report, const plan::Plan& plan, const ir::Graph& graph) {
  std::map<std::string, std::vector<size_t>> rows;
  for (size_t at = 0; at < report.rows.size(); ++at)
    for (const std::string& origin : report.rows[at].origins) rows[origin].push_back(at);
  const std::set<std::string> alive = origins_of(graph);
  for (const plan::Source& source : sources_of(plan, report)) {
    Fate fate{source.name, source.op};
    if (const auto found = rows.find(source.name); found != rows.end()) fate.rows = found->second;
    else if (!source.fate.empty()) fate.says = source.fate + (source.into.empty() ? "" : "; next is " + source.into);
    else if (alive.count(source.name)) fate.says = "a view of its input: costs nothing";
    else fate.says = "a constant for these sizes";
    report.nodes.push_back(std::move(fate));
  }
}

}  // namespace

Report explain(const plan::Plan& plan, const std::vector<LayerTime>& layers, int threads) {
  Report report{plan.device, plan.precision, plan.isa, threads};
  report.measured = !layers.empty();
  const bool on_gpu = plan.device != "cpu";
  cuda::Properties properties;
  const cuda::Properties* device = on_gpu ? properties_for(plan, properties) : nullptr;
  ir::Graph graph = plan::concretise(plan.graph, plan.shapes);
  if (on_gpu && plan::is_static(graph)) graph = plan::device_graph(std::move(graph), plan, device);
  if (plan::is_static(graph))
    add_rows(report, plan, graph, plan::lay_out(graph, false, on_gpu), layers, threads, device);
  else add_profile(report, layers);
  for (const Row& row : report.rows) report.microseconds += std::max(row.microseconds, 0.0);
  report.evidence = plan.evidence;
  for (const plan::LayerEvidence& layer : plan.evidence.layers)
    for (Row& row : report.rows)
      if (std::find(row.origins.begin(), row.origins.end(), layer.node) != row.origins.end() && is_product(row.op)) {
        row.error = layer.error;
        if (row.precision != "int8") row.kept = layer.reason;
      }
  add_nodes(report, plan, graph);
  find(report);
  return report;
}

}  // namespace tenon::explain

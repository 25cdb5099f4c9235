// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "backends/backend.h"
#include "explain/floor.h"
#include "explain/report.h"
#include "ops/fused_operands.h"
#include "ops/op.h"
#include "passes/groups.h"
#include "plan/blocks.h"

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

/// The arithmetic of a step, by the narrowest type among what it reads and writes; nullopt where it has no floats.
std::optional<Precision> precision_of(const Problem& problem) {
  const bool product = ops::has_trait(problem.node->op, ops::Trait::product);
  const auto holds_f32 = [](const std::vector<Operand>& list) { return !list.empty() && list[0].dtype == DType::f32; };
  // Weights of fewer bits are cast to the type of the data.
  const bool casts = product && holds_f32(problem.inputs) && holds_f32(problem.outputs);
  std::set<DType> types;
  for (const auto* list : {&problem.inputs, &problem.outputs})
    for (const Operand& operand : *list)
      if (!casts || !operand.constant) types.insert(operand.dtype);
  if (types.count(DType::u8) || types.count(DType::i8)) return Precision::int8;
  if (types.count(DType::f8e4m3fn)) return Precision::fp8;
  if (types.count(DType::f16)) return Precision::fp16;
  if (types.count(DType::bf16)) return Precision::bf16;
  if (!types.count(DType::f32)) return std::nullopt;
  return problem.tf32 && product ? Precision::tf32 : Precision::fp32;
}

/// Whether a step has numbers of 16 bits, as integers, beside those of 32.
bool has_int16(const Problem& problem) {
  const auto holds = [&](DType type) {
    const auto is = [type](const Operand& operand) { return operand && operand.dtype == type; };
    return std::any_of(problem.inputs.begin(), problem.inputs.end(), is) ||
           std::any_of(problem.outputs.begin(), problem.outputs.end(), is);
  };
  return ops::reads_int16(*problem.node) || (holds(DType::f32) && (holds(DType::i16) || holds(DType::u16)));
}

void set_precision(Row& row, std::optional<Precision> precision, const Problem& problem) {
  if (precision == Precision::fp32 && has_int16(problem)) {
    row.precision = std::nullopt, row.arithmetic = "int16";
    return;
  }
  row.precision = precision;
  row.arithmetic = precision                 ? std::string(name(*precision))
                   : problem.outputs.empty() ? "-"
                                             : std::string(name(problem.outputs[0].dtype));
}

bool is_product(const std::string& op) { return ops::has_trait(op, ops::Trait::product); }

double time_of(const plan::Record& record, const std::string& kernel) {
  if (record.kernel == kernel && record.microseconds > 0) return record.microseconds;
  for (const plan::Candidate& candidate : record.candidates)
    if (candidate.kernel == kernel) return candidate.microseconds;
  return unknown;
}

/// Kernel, choices and candidates of a step. Refusals are known only where the device is.
void weigh(Row& row, const Problem& problem, const plan::Plan& plan, bool here) {
  const backends::Backend& backend = backends::backend(plan.device);
  const plan::Record* record = plan::record_of(plan, problem);
  row.kernel = record ? record->kernel : "";
  std::vector<std::string> tactics;
  if (here) {
    row.kernel = backend.choose(problem, plan.device, row.kernel);
    tactics = backend.tactics(problem, plan.device);
    row.choices = static_cast<int>(tactics.size());
  } else if (record) {
    row.choices = static_cast<int>(record->candidates.size()) + 1;
  }
  if (record) row.alone = time_of(*record, row.kernel);
  const auto add = [&](const std::string& kernel, double microseconds) {
    const bool ran = microseconds < plan::never;
    if (kernel != row.kernel)
      row.candidates.push_back(
          {kernel, ran ? microseconds : unknown, ran ? backends::Reason() : backends::Reason::fails});
  };
  if (record) {
    add(record->kernel, record->microseconds);
    for (const plan::Candidate& candidate : record->candidates) add(candidate.kernel, candidate.microseconds);
  }
  for (const std::string& tactic : tactics)
    if (std::none_of(row.candidates.begin(), row.candidates.end(),
                     [&](const Candidate& candidate) { return candidate.kernel == tactic; }))
      add(tactic, unknown);
  if (!here) return;
  for (const backends::Refusal& refusal : backend.refusals(problem, plan.device))
    row.candidates.push_back({refusal.kernel, unknown, refusal.reason});
  row.on_host = row.kernel.empty();
  if (row.on_host) row.kernel = backends::host().name();
}

/// Times of a profile by name of the step, in order.
std::map<std::string, std::deque<double>> times_of(const std::vector<LayerTime>& layers) {
  std::map<std::string, std::deque<double>> times;
  for (const LayerTime& layer : layers) times[layer.inside + layer.name].push_back(layer.microseconds);
  return times;
}

/// How often a run comes to the steps inside these nodes.
std::map<std::string, double> rounds_of(const std::vector<LayerTime>& layers) {
  std::map<std::string, double> rounds;
  for (const LayerTime& layer : layers) rounds[layer.inside] = layer.rounds;
  return rounds;
}

/// Beside the last node of a group that runs unfused: the fastest kernel for the whole of it.
void weigh_group(Row& row, const ir::Graph& graph, const passes::Group& group,
                 const std::map<std::string, plan::Record>& records) {
  const auto record = records.find(passes::result_of(graph, group));
  if (record == records.end() || record->second.candidates.empty()) return;
  std::string with;
  for (size_t at = group.nodes.size() - 1; at-- > 0;)
    with += (with.empty() ? " with " : " and ") + graph.node(group.nodes[at]).label();
  const plan::Candidate& fastest = record->second.candidates.front();
  row.candidates.push_back({fastest.kernel + with, fastest.microseconds, {}});
}

/// What rows of a schedule are made from.
struct Writer {
  Report& report;
  const plan::Plan& plan;
  const backends::Backend& backend = backends::backend(plan.device);
  const bool here = backend.has(plan.device);
  std::map<std::string, std::deque<double>> times;
  std::map<std::string, double> rounds;  // by what is around

  /// Its time, its candidates in order, and into the report.
  void add(Row row) {
    std::deque<double>& measured = times[row.inside + row.op + " " + row.name];
    row.microseconds = measured.empty() ? row.alone : measured.front();
    if (!measured.empty()) measured.pop_front();
    if (!row.inside.empty()) {
      const auto found = rounds.find(row.inside);
      row.rounds = found == rounds.end() ? unknown : found->second;
      row.name = row.inside + row.name;
    }
    std::stable_sort(row.candidates.begin(), row.candidates.end(), [](const Candidate& a, const Candidate& b) {
      return (a.microseconds < 0 ? 1e300 : a.microseconds) < (b.microseconds < 0 ? 1e300 : b.microseconds);
    });
    report.rows.push_back(std::move(row));
  }

  Row row_of(const ir::Node& node, const Problem& problem) const {
    Row row{node.label(), node.origins, node.op, sizes_of(problem)};
    set_precision(row, precision_of(problem), problem);
    row.work = work_of(problem);
    return row;
  }

  Row weighed(const ir::Node& node, const Problem& problem) const {
    Row row = row_of(node, problem);
    weigh(row, problem, plan, here);
    return row;
  }

  /// A node that runs bodies, and behind it their steps.
  void add_blocks(const ir::Node& node, const Problem& problem, const std::string& tactic,
                  const std::vector<backends::Schedule>& blocks, const std::string& inside) {
    Row row = row_of(node, problem);
    row.kernel = tactic;
    row.inside = inside;
    row.work = {};  // it is that of the bodies' steps
    add(std::move(row));
    for (const backends::Schedule& block : blocks)
      for (const backends::ScheduledStep& step : block.steps) {
        const ir::Node& inner = block.graph.node(step.node);
        const std::string around = inside + node.label() + "/";
        if (step.blocks) {
          add_blocks(inner, step.problem, step.tactic, *step.blocks, around);
          continue;
        }
        Row body = weighed(inner, step.problem);
        body.inside = around;
        add(std::move(body));
      }
  }
};

void add_rows(Report& report, const plan::Plan& plan, const ir::Graph& graph, const plan::Layout& layout,
              const std::vector<LayerTime>& layers, int threads) {
  Writer writer{.report = report, .plan = plan, .times = times_of(layers), .rounds = rounds_of(layers)};
  const backends::Backend& backend = writer.backend;
  if (!writer.here)
    report.notes.push_back(plan.device.str() + " is not here: refusals of its kernels are not shown");
  const std::vector<passes::Group> groups = passes::groups_of(graph, backend.groups());
  const std::map<std::string, plan::Record> of_groups = plan::group_records(graph, plan);
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id) {
    if (!layout.runs[id]) continue;
    const ir::Node& node = graph.node(id);
    const Problem problem = plan::problem_of(graph, id, layout, threads, plan);
    if (const plan::BlockChoice choice =
            writer.here ? plan::choose_blocks(graph, problem, id, plan) : plan::BlockChoice();
        choice.blocks) {
      writer.add_blocks(node, problem, choice.tactic, *choice.blocks, {});
      continue;
    }
    Row row = writer.weighed(node, problem);
    for (const passes::Group& group : groups)
      if (group.last() == id) weigh_group(row, graph, group, of_groups);
    if (row.kernel.starts_with("bf16_")) set_precision(row, Precision::bf16, problem);
    writer.add(std::move(row));
  }
}

/// Rows of a network whose sizes depend on its data: the profile alone.
void add_profile(Report& report, const std::vector<LayerTime>& layers) {
  report.notes.push_back("sizes depend on the data: kernels are chosen as tensors come, and candidates are not timed");
  for (const LayerTime& layer : layers) {
    const std::string op = layer.name.substr(0, layer.name.find(' '));
    Row row{layer.inside + (layer.origins.empty() ? op : layer.origins.front()), layer.origins, op, "", "-",
            layer.tactic};
    row.microseconds = layer.microseconds;
    row.inside = layer.inside, row.rounds = layer.rounds;
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
  Report report{plan.device, plan.goal.precision, plan.goal.isa, threads};
  report.measured = !layers.empty();
  ir::Graph graph = plan::concretise(plan.graph, plan.shapes);
  if (plan::is_static(graph)) graph = plan::device_graph(std::move(graph), plan);
  const backends::Capabilities can = backends::backend(plan.device).capabilities(plan.device);
  report.floats = can.floats;
  if (plan::is_static(graph))
    add_rows(report, plan, graph, plan::lay_out(graph, false, can.host_memory), layers, threads);
  else add_profile(report, layers);
  for (const Row& row : report.rows) report.microseconds += std::max(row.microseconds, 0.0);
  report.evidence = plan.evidence;
  for (const plan::LayerEvidence& layer : plan.evidence.layers)
    for (Row& row : report.rows)
      if (std::find(row.origins.begin(), row.origins.end(), layer.node) != row.origins.end() && is_product(row.op)) {
        row.error = layer.error;
        if (row.precision != Precision::int8) row.kept = layer.reason;
      }
  add_nodes(report, plan, graph);
  find(report);
  return report;
}

}  // namespace tenon::explain

// SPDX-License-Identifier: Apache-2.0
#include "compile/observe.h"

#include <tenon/error.h>

#include <algorithm>
#include <chrono>

#include "ops/op.h"
#include "quant/data_loader.h"
#include "quant/structure.h"

namespace tenon::compile {

Shapes batch_shapes(const ir::Graph& graph, const Setting& setting) {
  const ir::Graph concrete = plan::concretise(graph, setting.shapes);
  Shapes shapes;
  for (size_t at = 0; at < concrete.inputs.size(); ++at) {
    const ir::Value& value = concrete.value(concrete.inputs[at]);
    if (!value.shape || !ir::is_constant(*value.shape)) continue;
    std::vector<int64_t>& sizes = shapes[value.name];
    for (const ir::Dim& dim : *value.shape) sizes.push_back(dim.value());
    const std::optional<ir::Shape>& stated = graph.value(graph.inputs[at]).shape;
    if (setting.options.batch > 0 && !sizes.empty() && stated && !(*stated)[0].is_constant())
      sizes[0] = setting.options.batch;
  }
  return shapes;
}

namespace {
/// What the softmax that makes an output reads; otherwise the output.
ir::ValueId judged(const ir::Graph& graph, ir::ValueId output) {
  const ir::Node* at = graph.producer(output);
  while (at && ops::has_trait(at->op, ops::Trait::view)) at = graph.producer(at->inputs[0]);
  return at && ops::has_trait(at->op, ops::Trait::softmax) ? at->inputs[0] : output;
}
}  // namespace

ir::Graph judged_graph(ir::Graph graph) {
  for (ir::ValueId& output : graph.outputs) output = judged(graph, output);
  graph.tidy();
  return graph;
}

bool is_judged_apart(const ir::Graph& graph) {
  return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                     [&](ir::ValueId output) { return judged(graph, output) != output; });
}

namespace {

constexpr double seconds_between_saves = 3;

/// Keeps batches spread evenly over data of unknown length: when full, every second one goes and only every second
/// further one is taken.
class Spread {
 public:
  explicit Spread(std::vector<quant::Observations::Probe>& kept) : kept_(kept) {}
  /// `run` gives the batch's outputs where they are wanted.
  void offer(const std::vector<Tensor>& inputs, const std::function<std::vector<Tensor>()>& run) {
    if (seen_++ % stride_ != 0) return;
    if (kept_.size() == room_) {
      for (size_t at = 1; at < kept_.size() / 2; ++at) kept_[at] = std::move(kept_[2 * at]);
      kept_.resize(kept_.size() / 2);
      stride_ *= 2;
      if ((seen_ - 1) % stride_ != 0) return;
    }
    quant::Observations::Probe probe;
    size_t bytes = 0;
    for (const Tensor& input : inputs) bytes += input.bytes(), probe.inputs.push_back(input.copy());
    for (const Tensor& output : run()) bytes += output.bytes(), probe.outputs.push_back(output.copy());
    kept_.push_back(std::move(probe));
    room_ = std::clamp(quant::Observations::probe_bytes / std::max(bytes, size_t{1}), size_t{1},
                       quant::Observations::most_probes);
  }

 private:
  std::vector<quant::Observations::Probe>& kept_;
  size_t room_ = quant::Observations::most_probes;
  int64_t seen_ = 0, stride_ = 1;
};

void check_finite(const ValueObserver& observer, const std::vector<quant::Histogram>& groups,
                  const quant::Structure& structure, const ir::Graph& graph, const quant::DataLoader::Batch& batch) {
  for (size_t at = 0; at < observer.graph().inputs.size(); ++at) {
    if (batch.inputs[at].dtype() != DType::f32) continue;
    const std::span<const float> values = batch.inputs[at].values<float>();
    const auto odd = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
    if (odd != values.end())
      throw Error(Code::usage, "the calibration data holds NaN or infinity",
                  {.where = batch.label_at(batch.inputs[at], odd - values.begin()),
                   .why = "input \"" + observer.graph().value(observer.graph().inputs[at]).name + "\""});
  }
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (structure.source[id] && groups[structure.group[id]].not_finite() > 0)
      throw Error(Code::usage, "the model gives NaN or infinity in floating point",
                  {.where = batch.label(),
                   .why = "tensor \"" + graph.values[id].name + "\" or one of its scale group",
                   .hint = "leave the sample out, or check the model"});
}

}  // namespace

quant::Observations observe(const ir::Graph& graph, const quant::Structure& structure, Calibrator& data,
                            const Setting& setting, ThreadPool& thread_pool, const quant::Checkpoint& from,
                            const std::function<void(const quant::Checkpoint&)>& save) {
  quant::Observations seen;
  seen.groups = from.groups;
  seen.groups.resize(static_cast<size_t>(structure.groups));
  ValueObserver observer(graph, batch_shapes(graph, setting), thread_pool, setting.records);
  for (size_t id = 0; id < graph.values.size(); ++id) {
    ObserverContext context;
    if (structure.source[id]) context.histogram = &seen.groups[structure.group[id]];
    context.channels = structure.source[id];
    for (const ir::NodeId user : graph.values[id].users)
      if (structure.integer[user] && graph.node(user).inputs[0] == static_cast<ir::ValueId>(id))
        context.channels = true, context.channel_axis = quant::channel_axis(graph.node(user));
    if (context.histogram || context.channels) observer.watch(graph.values[id].name, context);
  }
  quant::DataLoader loader(observer.graph(), data, setting.options.count);
  Spread spread(seen.probes);
  quant::Auditor auditor(observer.graph(), seen.groups.size());
  std::unique_ptr<ValueObserver> plain, judge;
  const bool apart = is_judged_apart(graph);
  if (auditor.has_images() || (from.samples > 0 && !apart))
    plain = std::make_unique<ValueObserver>(graph, batch_shapes(graph, setting), thread_pool, setting.records);
  if (apart)
    judge = std::make_unique<ValueObserver>(judged_graph(graph), batch_shapes(graph, setting), thread_pool,
                                            setting.records);
  const quant::Auditor::Run run_plain = [&](const std::vector<Tensor>& inputs) { return plain->run(inputs); };
  if (from.samples > 0) auditor.resume(from.audit);
  const auto sums = [&] {
    std::map<std::string, quant::ChannelSums> all = from.channels;
    for (const ir::Value& value : graph.values)
      if (const quant::ChannelSums own = observer.channels(value.name); own.positions > 0) all[value.name].merge(own);
    return all;
  };
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  auto saved = begin;
  if (setting.progress && !setting.progress("calibrate", 0, -1)) throw Error(Code::usage, "the build was cancelled");
  while (const auto batch = loader.next()) {
    if (loader.samples() <= from.samples) {
      spread.offer(batch->inputs, [&] { return (apart ? judge : plain)->run(batch->inputs); });
      auditor.pass_over(*batch);
      continue;
    }
    const std::vector<Tensor> outputs = observer.run(batch->inputs);
    check_finite(observer, seen.groups, structure, graph, *batch);
    spread.offer(batch->inputs, [&] { return apart ? judge->run(batch->inputs) : outputs; });
    auditor.note(*batch, outputs, seen.groups, auditor.has_images() ? run_plain : quant::Auditor::Run());
    if (save && std::chrono::duration<double>(Clock::now() - saved).count() > seconds_between_saves) {
      save({loader.samples(), seen.groups, sums(), auditor.state()});
      saved = Clock::now();
    }
    const double spent = std::chrono::duration<double>(Clock::now() - begin).count();
    const double done = loader.expected() > 0 ? static_cast<double>(loader.samples()) / loader.expected() : 0;
    if (setting.progress && !setting.progress("calibrate", std::min(done, 1.0), done > 0 ? spent / done - spent : -1))
      throw Error(Code::usage, "the build was cancelled");
  }
  seen.samples = loader.samples();
  if (seen.samples == 0) throw Error(Code::usage, "there is no calibration data");
  auditor.finish(seen.groups);
  if (save) save({seen.samples, seen.groups, sums(), auditor.state()});
  seen.ends = auditor.state().ends;
  seen.coverage = auditor.coverage();
  seen.suspicions = auditor.suspicions(graph);
  seen.channels = sums();
  return seen;
}

}  // namespace tenon::compile

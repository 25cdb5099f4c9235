// SPDX-License-Identifier: Apache-2.0
#include "compile/latency_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include "backends/backend.h"
#include "base/thread_pool.h"
#include "ops/op.h"
#include "passes/passes.h"
#include "quant/structure.h"
#include "runtime/program.h"

namespace tenon::compile {
namespace {

/// Which ONNX nodes belong together because some step of one of the plans computes them together.
class Parts {
 public:
  const std::string& root(const std::string& origin) {
    auto& above = parent_.try_emplace(origin, origin).first->second;
    if (above == origin) return above;
    return above = root(std::string(above));
  }
  void join(const std::vector<std::string>& origins) {
    for (size_t at = 1; at < origins.size(); ++at) parent_[root(origins[at])] = std::string(root(origins[0]));
  }

 private:
  std::map<std::string, std::string> parent_;
};

/// What comes before sizes that data decide, where some do: what is behind them takes as long either way.
std::optional<plan::Plan> timed_part(const plan::Plan& plan) {
  const ir::Graph concrete = plan::concretise(plan.graph, plan.shapes);
  if (plan::is_static(concrete)) return std::nullopt;
  plan::Plan part = plan;
  part.graph = plan::planned_part(concrete);
  return part;
}

/// A bound plan with the least time seen of each step.
struct Runner {
  std::optional<plan::Plan> part;
  runtime::Program program;
  std::vector<Tensor> inputs;
  std::vector<LayerTime> steps;
  std::vector<double> runs;  // of the whole on a GPU, in microseconds

  Runner(const plan::Plan& plan, ThreadPool& thread_pool)
      : part(timed_part(plan)), program(part ? *part : plan, plan.shapes, thread_pool) {
    for (const ir::ValueId id : program.graph().inputs) {
      const ir::Value& value = program.graph().value(id);
      Dims dims;
      for (const ir::Dim& dim : *value.shape) dims.push_back(dim.value());
      Tensor input(value.dtype, dims);
      std::memset(input.data<std::byte>(), 0, input.bytes());
      if (value.dtype == DType::f32)
        for (int64_t at = 0; at < input.elements(); ++at)
          input.data<float>()[at] = static_cast<float>(at * 2654435761u % 1024) / 1024;
      inputs.push_back(std::move(input));
    }
  }
  /// Of the graph's nodes; those of bodies are not chosen.
  std::vector<LayerTime> profile(int iterations) {
    std::vector<LayerTime> layers = program.profile(inputs, iterations);
    std::erase_if(layers, [](const LayerTime& layer) { return !layer.inside.empty(); });
    return layers;
  }
  void lap() {
    if (program.streams()) {
      // Steps overlap: the whole is not their sum. Each is a median of many replays.
      if (steps.empty()) steps = profile(5);
      for (const double milliseconds : program.device_times(15)) runs.push_back(milliseconds * 1e3);
      return;
    }
    // One run at a time: of a mean of two, both would have to be undisturbed.
    for (int run = 0; run < 2; ++run) {
      std::vector<LayerTime> now = profile(1);
      if (steps.empty()) steps = std::move(now);
      else
        for (size_t at = 0; at < steps.size(); ++at)
          steps[at].microseconds = std::min(steps[at].microseconds, now[at].microseconds);
    }
  }
  /// Before it is timed anew, beside another.
  void forget() {
    runs.clear();
    if (!program.streams()) steps.clear();
  }
  double total() const {
    if (!runs.empty()) {
      std::vector<double> sorted = runs;
      std::nth_element(sorted.begin(), sorted.begin() + static_cast<int64_t>(sorted.size() / 2), sorted.end());
      return sorted[sorted.size() / 2];
    }
    double sum = 0;
    for (const LayerTime& step : steps) sum += step.microseconds;
    return sum;
  }
};

/// Both run in turn, so that a slow moment of the machine hits both.
void benchmark(Runner& one, Runner& other) {
  constexpr double seconds = 1.5;
  constexpr int least_rounds = 3;
  const int most_rounds = one.program.streams() ? 5 : 30;
  double spent = 0;
  for (int round = 0; round < most_rounds && (round < least_rounds || spent < seconds * 1e6); ++round) {
    one.lap(), other.lap();
    spent += 2 * (one.total() + other.total());
  }
}

bool is_conversion(const ir::OpId& op) {
  return ops::has_trait(op, ops::Trait::quantises) || ops::has_trait(op, ops::Trait::dequantises);
}

bool is_integer(const ir::Node& node) {
  return ops::has_trait(node.op, ops::Trait::quantised) && ops::has_trait(node.op, ops::Trait::product);
}

/// The integer nodes nearest to a conversion: those that read what is quantised, or make what is read as a number.
std::set<ir::NodeId> served(const ir::Graph& graph, ir::NodeId conversion) {
  std::set<ir::NodeId> found, seen;
  const bool down = ops::has_trait(graph.node(conversion).op, ops::Trait::quantises);
  std::vector<ir::NodeId> todo{conversion};
  while (!todo.empty()) {
    const ir::NodeId at = todo.back();
    todo.pop_back();
    if (!seen.insert(at).second) continue;
    if (is_integer(graph.node(at))) {
      found.insert(at);
      continue;
    }
    if (at != conversion && is_conversion(graph.node(at).op)) continue;
    if (down) {
      for (const ir::ValueId out : graph.node(at).outputs)
        if (out != ir::no_value) todo.insert(todo.end(), graph.value(out).users.begin(), graph.value(out).users.end());
    } else {
      for (const ir::ValueId in : graph.node(at).inputs)
        if (in != ir::no_value && graph.value(in).producer != ir::no_node) todo.push_back(graph.value(in).producer);
    }
  }
  return found;
}

/// Microseconds by part.
std::map<std::string, double> costs(Runner& runner, Parts& parts) {
  const ir::Graph& graph = runner.program.graph();
  std::map<std::string, double> sums;
  for (size_t at = 0; at < runner.steps.size(); ++at) {
    const LayerTime& step = runner.steps[at];
    const ir::NodeId node = runner.program.node_of(at);
    std::set<ir::NodeId> to;
    if (is_conversion(graph.node(node).op)) to = served(graph, node);
    if (to.empty()) {
      if (!step.origins.empty()) sums[parts.root(step.origins[0])] += step.microseconds;
      continue;
    }
    for (const ir::NodeId one : to)
      if (!graph.node(one).origins.empty())
        sums[parts.root(graph.node(one).origins[0])] += step.microseconds / static_cast<double>(to.size());
  }
  return sums;
}

/// Microseconds of each convolution, by what it is made of, with the conversions that it alone reads and writes.
std::map<std::vector<std::string>, double> with_conversions(const Runner& runner) {
  const ir::Graph& graph = runner.program.graph();
  std::map<ir::NodeId, double> times;
  for (size_t at = 0; at < runner.steps.size(); ++at)
    times[runner.program.node_of(at)] += runner.steps[at].microseconds;
  std::map<std::vector<std::string>, double> sums;
  for (const auto& [id, microseconds] : times) {
    const ir::Node& node = graph.node(id);
    if (node.origins.empty() || (!is_integer(node) && !quant::is_convolution(node))) continue;
    double& sum = sums[node.origins];
    sum += microseconds;
    const auto add = [&](ir::NodeId other) {
      if (other == ir::no_node || !is_conversion(graph.node(other).op) || !times.count(other)) return false;
      sum += times[other];
      return true;
    };
    for (ir::ValueId input : node.inputs)
      while (input != ir::no_value && graph.value(input).users.size() == 1 && add(graph.value(input).producer))
        input = graph.node(graph.value(input).producer).inputs[0];
    for (const ir::NodeId user : graph.value(node.outputs[0]).users) add(user);
  }
  return sums;
}

/// Microseconds of an anchor's part of the network.
struct Times {
  double real = 0, bytes = 0;
  int anchors = 0;  // in the part
};

/// An anchor whose part of the network is slower in INT8.
struct Slower {
  std::string anchor, reason;
  double gain = 0;  // microseconds in floating point instead
};

std::map<std::string, Times> times_of(const ir::Graph& graph, const quant::Recipe& recipe, Runner& floats,
                                      Runner& quantised) {
  Parts parts;
  for (const Runner* runner : {&floats, &quantised})
    for (size_t at = 0; at < runner->steps.size(); ++at)
      if (!is_conversion(runner->program.graph().node(runner->program.node_of(at)).op))
        parts.join(runner->steps[at].origins);
  std::map<std::string, double> before = costs(floats, parts), after = costs(quantised, parts);
  std::map<std::string, std::vector<std::string>> together;
  for (const ir::Node& node : graph.nodes)
    if (node.alive && !node.outputs.empty() && !node.origins.empty())
      if (const std::string& name = quant::result_name(graph, node); recipe.anchors.count(name))
        together[parts.root(node.origins[0])].push_back(name);
  std::map<std::string, Times> times;
  for (const auto& [part, anchors] : together)
    for (const std::string& name : anchors) times[name] = {before[part], after[part], static_cast<int>(anchors.size())};
  return times;
}

/// All of them, those that lose most first.
std::vector<Slower> slower(const quant::Recipe& recipe, const std::map<std::string, Times>& times) {
  std::vector<Slower> found;
  for (const auto& [name, time] : times)
    if (time.bytes > time.real && !recipe.pinned.count(name))
      found.push_back({name,
                       fmt::format("it takes {:.1f} us there and {:.1f} us in INT8", time.real, time.bytes),
                       time.bytes - time.real});
  std::stable_sort(found.begin(), found.end(), [](const Slower& a, const Slower& b) { return a.gain > b.gain; });
  return found;
}

}  // namespace

LatencyCheck keep_faster(const ir::Graph& graph, const plan::Plan& floats, const quant::Recipe& recipe,
                 const std::function<plan::Plan(const quant::Recipe&)>& quantise) {
  const bool overlaps = backends::backend(floats.device).capabilities(floats.device).concurrent;
  const int most_turns = overlaps ? 7 : 4;
  const double worth = overlaps ? 0.997 : 0.99;  // of the time before, for a turn to be taken
  ThreadPool thread_pool(floats.threads, Denormals::flushed, Helpers::all);
  Runner real(floats, thread_pool);
  LatencyCheck best;
  std::map<std::string, std::string> kept;
  std::vector<Slower> more;  // that may join them
  size_t taken = 0;          // of those, in this turn
  for (int turn = 0; turn < most_turns; ++turn) {
    std::map<std::string, std::string> now = kept;
    for (size_t at = 0; at < taken; ++at) now[more[at].anchor] = more[at].reason;
    const quant::Recipe trial = quant::without(graph, recipe, now);
    plan::Plan plan = quantise(trial);
    Runner bytes(plan, thread_pool);
    real.forget();
    benchmark(real, bytes);
    const bool better = turn == 0 || bytes.total() / real.total() < worth * best.int8_us / best.float_us;
    if (better) {
      const std::map<std::string, Times> times = times_of(graph, trial, real, bytes);
      best = {std::move(plan), real.total(), bytes.total(), trial, {}, {}};
      for (const auto& [name, time] : times) best.saved[name] = (time.real - time.bytes) / time.anchors;
      more = slower(trial, times);
      kept = std::move(now);
      taken = more.size();
    } else {
      // Conversions at their edges may cost more than what all of them gain; the host's are cheap.
      taken = overlaps ? taken / 3 : 0;
    }
    if (taken == 0) break;
  }
  return best;
}

void kept_to_f32(ir::Graph& graph, const std::map<std::string, std::string>& keep) {
  for (const auto& [name, precision] : keep) {
    bool found = false;
    for (ir::NodeId id = 0, count = static_cast<ir::NodeId>(graph.nodes.size()); id < count; ++id) {
      const ir::Node& node = graph.node(id);
      if (!node.alive || !is_integer(node)) continue;
      if (std::find(node.origins.begin(), node.origins.end(), name) == node.origins.end()) continue;
      found |= precision == quant::in_int8 || passes::int8_to_f32(graph, id);
    }
    if (!found)
      throw Error(Code::usage, "no layer in INT8 is called \"" + name + "\"",
                  {.where = "--keep",
                   .hint = "tenon why lists the model's nodes; convolutions and matrix multiplications count"});
  }
  graph.tidy();
  ops::infer(graph);
}

plan::Plan slower_to_f32(plan::Plan integers, const std::function<void(plan::Plan&)>& tune) {
  constexpr double worth = 0.95, worth_it_all = 0.98;  // of the time in INT8, of a layer and of the whole
  using Origins = std::vector<std::string>;
  const bool only_int16 = passes::has_int16_convs(integers.graph) &&
                          backends::backend(integers.device).capabilities(integers.device).fast_integers;
  const auto widened = [&](const std::set<Origins>* chosen) {
    plan::Plan result = integers;
    for (ir::NodeId id = 0, count = static_cast<ir::NodeId>(result.graph.nodes.size()); id < count; ++id)
      if (result.graph.node(id).alive && (!chosen || chosen->count(result.graph.node(id).origins)))
        only_int16 ? passes::int16_conv_to_f32(result.graph, id) : passes::int8_to_f32(result.graph, id);
    result.graph.tidy();
    ops::infer(result.graph);
    tune(result);
    return result;
  };
  ThreadPool thread_pool(integers.threads, Denormals::flushed, Helpers::all);
  Runner bytes(integers, thread_pool);
  const plan::Plan floats = widened(nullptr);
  Runner real(floats, thread_pool);
  benchmark(bytes, real);
  const std::map<Origins, double> before = with_conversions(bytes), after = with_conversions(real);
  std::set<Origins> chosen;
  for (const auto& [origins, microseconds] : before)
    if (const auto other = after.find(origins); other != after.end() && other->second < worth * microseconds)
      chosen.insert(origins);
  if (chosen.empty()) return integers;
  plan::Plan mixed = widened(&chosen);
  Runner both(mixed, thread_pool);
  bytes.forget();
  benchmark(bytes, both);
  return both.total() < worth_it_all * bytes.total() ? mixed : integers;
}

Gain gain_of(const ir::Graph& graph, const plan::Plan& one, const plan::Plan& other) {
  quant::Recipe all;
  for (const ir::Node& node : graph.nodes)
    if (quant::role_of(graph, node) == quant::Role::anchor) all.anchors[quant::result_name(graph, node)];
  ThreadPool thread_pool(one.threads, Denormals::flushed, Helpers::all);
  Runner first(one, thread_pool), second(other, thread_pool);
  benchmark(first, second);
  Gain gain{first.total(), second.total(), {}};
  for (const auto& [name, time] : times_of(graph, all, first, second))
    gain.by_anchor[name] = (time.real - time.bytes) / time.anchors;
  return gain;
}

std::pair<double, double> benchmark(const plan::Plan& one, const plan::Plan& other) {
  ThreadPool thread_pool(one.threads, Denormals::flushed, Helpers::all);
  Runner first(one, thread_pool), second(other, thread_pool);
  benchmark(first, second);
  return {first.total(), second.total()};
}

}  // namespace tenon::compile

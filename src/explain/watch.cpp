// SPDX-License-Identifier: Apache-2.0
#include "explain/watch.h"

#include <tenon/error.h>

#include <algorithm>
#include <map>

#include "backends/backend.h"
#include "ops/elementwise_program.h"
#include "ops/op.h"
#include "runtime/program.h"

namespace tenon::explain {
namespace {

/// Scale and zero point of what a node stores as u8.
struct Store {
  ir::ValueId value;  // looked at: the float before a QuantizeLinear, else the bytes
  size_t entry;
  float scale;
  int zero;
};

const Tensor* constant(const ir::Graph& graph, const ir::Node& node, size_t at) {
  const Tensor* tensor = at < node.inputs.size() ? graph.constant(node.inputs[at]) : nullptr;
  return tensor && tensor->elements() > 0 ? tensor : nullptr;
}

/// Scale, of the channel that reaches farthest, and zero point of the bytes that a node stores; 0 where it stores none.
std::pair<float, int> grid_of(const ir::Graph& graph, const ir::Node& node) {
  if (const auto program = ops::program_of(node)) {
    const ops::Instruction& last = program->back();
    return last.id == expr::Id::Quant ? std::pair(last.alpha, static_cast<int>(last.beta)) : std::pair(0.f, 0);
  }
  const int scale_at = ops::traits_of(node.op).output_scale();
  if (scale_at < 0) return {0, 0};
  const auto at = static_cast<size_t>(scale_at);
  const Tensor *scale = constant(graph, node, at), *zero = constant(graph, node, at + 1);
  if (!scale || !zero || zero->dtype() != DType::u8) return {0, 0};
  const std::span<const float> scales = scale->values<float>();
  return {*std::max_element(scales.begin(), scales.end()), *zero->data<uint8_t>()};
}

class Counter : public backends::Observer {
 public:
  Counter(const backends::Executable& program, const std::vector<Tensor>& inputs, const plan::Evidence& evidence)
      : program_(program), inputs_(inputs), evidence_(evidence) {
    const ir::Graph& graph = program.schedule().graph;
    for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id) add(graph, id);
  }

  void after(ir::NodeId node, const Worker& worker) override {
    if (worker.id != 0) return;
    const auto found = stores_.find(node);
    if (found == stores_.end()) return;
    count(found->second);
  }

  std::vector<Watched> results;

 private:
  void add(const ir::Graph& graph, ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    const bool stores = ops::has_trait(node.op, ops::Trait::quantises);
    const auto [step, at] = grid_of(graph, node);
    if (step <= 0 || !program_.schedule().layout.runs[id]) return;
    const ir::ValueId value = stores ? node.inputs[0] : node.outputs[0];
    Watched watched{graph.value(value).name};
    if (const plan::TensorEvidence* tensor = evidence_of(watched.name))
      watched.name = tensor->name, watched.usual = tensor->saturated;
    watched.low = static_cast<float>(-at) * step;
    watched.high = static_cast<float>(255 - at) * step;
    stores_[id] = {value, results.size(), step, at};
    results.push_back(std::move(watched));
  }

  /// Of the tensor that a value was made for: passes put ".u8" and numbers behind its name.
  const plan::TensorEvidence* evidence_of(std::string name) const {
    while (true) {
      for (const plan::TensorEvidence& tensor : evidence_.tensors)
        if (tensor.name == name) return &tensor;
      const size_t dot = name.rfind('.');
      if (dot == std::string::npos) return nullptr;
      const std::string end = name.substr(dot + 1);
      if (end != "u8" && end.find_first_not_of("0123456789") != std::string::npos) return nullptr;
      name.resize(dot);
    }
  }

  void count(const Store& store) {
    const auto input = std::find(graph().inputs.begin(), graph().inputs.end(), store.value);
    if (input != graph().inputs.end()) {
      const Tensor& tensor = inputs_[static_cast<size_t>(input - graph().inputs.begin())];
      return each(store, tensor.data<std::byte>(), tensor.dims(), backends::dense_strides(tensor.dims()));
    }
    const plan::Place& place = program_.schedule().layout.places[store.value];
    if (place.storage >= 0) each(store, program_.address(store.value), place.dims, place.strides);
  }

  void each(const Store& store, const std::byte* data, const Dims& dims, const Dims& strides) {
    Watched& watched = results[store.entry];
    const bool bytes = graph().value(store.value).dtype == DType::u8;
    std::vector<int64_t> index(dims.rank(), 0);
    int64_t offset = 0;
    for (int64_t at = 0, total = dims.elements(); at < total; ++at) {
      if (bytes) look(watched, reinterpret_cast<const uint8_t*>(data)[offset], store);
      else look(watched, reinterpret_cast<const float*>(data)[offset], store);
      for (size_t axis = dims.rank(); axis-- > 0;) {
        offset += strides[axis];
        if (++index[axis] < dims[axis]) break;
        offset -= strides[axis] * dims[axis];
        index[axis] = 0;
      }
    }
  }

  static void note(Watched& watched, float value, bool outside) {
    watched.least = watched.count ? std::min(watched.least, value) : value;
    watched.greatest = watched.count ? std::max(watched.greatest, value) : value;
    ++watched.count;
    watched.outside += outside;
  }
  static void look(Watched& watched, float value, const Store& store) {
    note(watched, value, !(value >= watched.low - store.scale / 2 && value <= watched.high + store.scale / 2));
  }
  /// Where nothing lies below zero, a byte of 0 is a zero.
  static void look(Watched& watched, uint8_t byte, const Store& store) {
    note(watched, static_cast<float>(byte - store.zero) * store.scale, byte == 255 || (byte == 0 && store.zero > 0));
  }

  const ir::Graph& graph() const { return program_.schedule().graph; }

  const backends::Executable& program_;
  const std::vector<Tensor>& inputs_;
  const plan::Evidence& evidence_;
  std::map<ir::NodeId, Store> stores_;
};

}  // namespace

bool Watched::has_left() const {
  constexpr double least = 0.01, factor = 4;
  return share() > least && share() > factor * usual;
}

std::vector<Watched> watch_ranges(const plan::Plan& plan, const Shapes& shapes, const std::vector<Tensor>& inputs,
                                  int threads) {
  ThreadPool thread_pool(threads, Denormals::flushed, Helpers::all);
  runtime::Program program(plan, shapes, thread_pool);
  backends::Executable* const whole = program.executable();
  if (!whole || !backends::backend(plan.device).capabilities(plan.device).observable)
    throw Error(Code::unsupported, "ranges can be watched on the CPU, where sizes do not depend on data",
                {.where = "--watch-ranges", .hint = "give --device cpu"});
  Counter counter(*whole, inputs, plan.evidence);
  std::vector<Tensor> outputs(program.graph().outputs.size());
  whole->run(inputs, outputs, counter);
  return std::move(counter.results);
}

}  // namespace tenon::explain

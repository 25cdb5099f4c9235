#include "explain/watch.h"

#include <tenon/error.h>

#include <algorithm>
#include <map>

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

class Counter : public runtime::Watcher {
 public:
  Counter(const runtime::Program& program, const std::vector<Tensor>& inputs, const plan::Evidence& evidence)
      : program_(program), inputs_(inputs), evidence_(evidence) {
    const ir::Graph& graph = program.graph();
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
    const bool stores = node.op == "QuantizeLinear", integer = node.op == "Int8Conv";
    if (!stores && !integer) return;
    const Tensor *scale = constant(graph, node, stores ? 1 : 7), *zero = constant(graph, node, stores ? 2 : 8);
    if (!scale || !zero || zero->dtype() != DType::u8 || !program_.layout().runs[id]) return;
    const ir::ValueId value = stores ? node.inputs[0] : node.outputs[0];
    std::string name = graph.value(value).name;
    if (integer && name.ends_with(".u8")) name.resize(name.size() - 3);
    Watched watched{name};
    for (const plan::TensorEvidence& tensor : evidence_.tensors)
      if (tensor.name == name) watched.usual = tensor.saturated;
    const std::span<const float> scales = scale->values<float>();
    const float step = *std::max_element(scales.begin(), scales.end());  // of the channel that reaches farthest
    const int at = *zero->data<uint8_t>();
    watched.low = static_cast<float>(-at) * step;
    watched.high = static_cast<float>(255 - at) * step;
    stores_[id] = {value, results.size(), step, at};
    results.push_back(std::move(watched));
  }

  void count(const Store& store) {
    const auto input = std::find(program_.graph().inputs.begin(), program_.graph().inputs.end(), store.value);
    if (input != program_.graph().inputs.end()) {
      const Tensor& tensor = inputs_[static_cast<size_t>(input - program_.graph().inputs.begin())];
      return each(store, tensor.data<std::byte>(), tensor.dims(), backends::dense_strides(tensor.dims()));
    }
    const plan::Place& place = program_.layout().places[store.value];
    if (place.storage >= 0) each(store, program_.address(store.value), place.dims, place.strides);
  }

  void each(const Store& store, const std::byte* data, const Dims& dims, const Dims& strides) {
    Watched& watched = results[store.entry];
    const bool bytes = program_.graph().value(store.value).dtype == DType::u8;
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

  const runtime::Program& program_;
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
  Team team(threads);
  runtime::Program program(plan, shapes, team);
  if (plan.device != "cpu" || !program.is_static())
    throw Error(Code::unsupported, "ranges can be watched on the CPU, where sizes do not depend on data",
                {.where = "--watch-ranges", .hint = "give --device cpu"});
  Counter counter(program, inputs, plan.evidence);
  std::vector<Tensor> outputs(program.graph().outputs.size());
  program.run(inputs, outputs, counter);
  return std::move(counter.results);
}

}  // namespace tenon::explain

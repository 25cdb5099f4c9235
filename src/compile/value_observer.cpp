// SPDX-License-Identifier: Apache-2.0
#include "compile/value_observer.h"

#include <tenon/error.h>

#include <algorithm>

namespace tenon::compile {

ValueObserver::ValueObserver(ir::Graph graph, const Shapes& shapes, ThreadPool& thread_pool,
                             const plan::Records& records)
    : thread_pool_(thread_pool) {
  plan_.graph = std::move(graph);
  plan_.records = plan::without_groups(records);  // every value is to be seen
  plan_.threads = thread_pool.threads();
  program_ = std::make_unique<runtime::Program>(plan_, shapes, thread_pool);
  if (!program_->is_static())
    throw Error(
        Code::unsupported, "the sizes of this model's tensors depend on its data",
        {.why = "calibration looks at tensors of fixed sizes", .hint = "give the sizes of all inputs with --shapes"});
  ir::NodeId last = ir::no_node;
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(program_->graph().nodes.size()); ++id) {
    if (layout().runs[id]) last = id;
    runs_before_.push_back(last);
  }
}

void ValueObserver::watch(const std::string& name, const ObserverContext& context) {
  const ir::Graph& graph = program_->graph();
  for (ir::ValueId id = 0; id < static_cast<ir::ValueId>(graph.values.size()); ++id) {
    const ir::Value& value = graph.value(id);
    if (value.name != name || value.is_constant() || value.dtype != DType::f32) continue;
    Watched watched{id, context, std::vector<quant::ChannelSums>(static_cast<size_t>(thread_pool_.threads()))};
    if (context.copy) *context.copy = Tensor(DType::f32, layout().places[id].dims);
    const auto input = std::find(graph.inputs.begin(), graph.inputs.end(), id);
    if (input != graph.inputs.end()) {
      input_contexts_[static_cast<size_t>(input - graph.inputs.begin())].push_back(std::move(watched));
    } else if (value.producer != ir::no_node && runs_before_[value.producer] != ir::no_node &&
               layout().places[id].storage >= 0) {
      contexts_[runs_before_[value.producer]].push_back(std::move(watched));
    }
    return;
  }
}

std::vector<Tensor> ValueObserver::run(const std::vector<Tensor>& given) {
  std::vector<Tensor> inputs = given;
  const Worker alone{0, 1, nullptr, nullptr, nullptr};
  for (auto& [at, list] : input_contexts_)
    for (Watched& watched : list) {
      Tensor& input = inputs[at];
      if (watched.context.round) input = input.copy();
      examine(watched, input.data<std::byte>(), input.dims(), backends::dense_strides(input.dims()), alone);
    }
  std::vector<Tensor> outputs(program_->graph().outputs.size());
  program_->executable()->run(inputs, outputs, *this);
  for (Tensor& output : outputs) output = output.copy();
  return outputs;
}

void ValueObserver::after(ir::NodeId node, const Worker& worker) {
  const auto found = contexts_.find(node);
  if (found == contexts_.end()) return;
  for (Watched& watched : found->second) {
    const plan::Place& place = layout().places[watched.value];
    examine(watched, program_->executable()->address(watched.value), place.dims, place.strides, worker);
  }
}

namespace {
/// Calls each(row, its offset, index of the second axis) for this worker's share of the rows along the last axis.
template <class F>
void each_row(const Dims& dims, const Dims& strides, const Worker& worker, const F& each) {
  int64_t rows = 1, begin, end;
  for (size_t axis = 0; axis + 1 < dims.rank(); ++axis) rows *= dims[axis];
  worker.share(rows, begin, end);
  for (int64_t row = begin; row < end; ++row) {
    int64_t offset = 0, left = row, second = 0;
    for (size_t axis = dims.rank() - 1; axis-- > 0;) {
      const int64_t index = left % dims[axis];
      left /= dims[axis];
      offset += index * strides[axis];
      if (axis == 1) second = index;
    }
    each(row, offset, second);
  }
}
/// What Quantiser::round gives, in steps that compilers make vectors of.
void round_row(float* row, int64_t length, const quant::Quantiser& grid, const float* factors) {
  constexpr float to_whole = 12582912;  // 1.5 * 2^23: sums with it are whole numbers, ties to even
  const float low = static_cast<float>(-grid.zero), high = static_cast<float>(255 - grid.zero);
  for (int64_t i = 0; i < length; ++i) {
    const float scale = factors ? grid.scale * factors[i] : grid.scale;
    const float steps = std::min(std::max(row[i] / scale, low), high);
    row[i] = (steps + to_whole - to_whole) * scale;
  }
}

/// Takes in a position of every channel.
void add_row(quant::ChannelSums& sums, const float* __restrict row, int64_t channels) {
  double* __restrict sum = sums.sum.data(), * __restrict squares = sums.squares.data();
  float* __restrict low = sums.low.data(), * __restrict high = sums.high.data();
  for (int64_t i = 0; i < channels; ++i) {
    const float number = row[i];
    const double x = number;
    sum[i] += x;
    squares[i] += x * x;
    low[i] = number < low[i] ? number : low[i];
    high[i] = number > high[i] ? number : high[i];
  }
}
}  // namespace

void ValueObserver::examine(Watched& watched, std::byte* bytes, const Dims& dims, const Dims& strides,
                            const Worker& worker) {
  auto* data = reinterpret_cast<float*>(bytes);
  const ObserverContext& context = watched.context;
  const bool scalar = dims.rank() == 0;
  const Dims sizes = scalar ? Dims{1} : dims, steps = scalar ? Dims{1} : strides;
  const int64_t length = sizes.back(), step = steps.back();
  const bool outer = context.channel_axis == 1 && sizes.rank() > 2;
  quant::ChannelSums& sums = watched.sums[static_cast<size_t>(worker.id)];
  const int64_t channels = outer ? sizes[1] : length;
  if (context.channels) sums.grow(static_cast<size_t>(channels));
  const std::vector<float>* const factors =
      context.factors && static_cast<int64_t>(context.factors->size()) == length ? context.factors : nullptr;
  quant::Histogram histogram;
  std::vector<float> block;
  constexpr size_t block_floats = 8192;
  each_row(sizes, steps, worker, [&](int64_t at, int64_t offset, int64_t second) {
    float* row = data + offset;
    if (context.round && step == 1) round_row(row, length, *context.round, factors ? factors->data() : nullptr);
    else if (context.round)
      for (int64_t i = 0; i < length; ++i)
        round_row(row + i * step, 1, *context.round, factors ? &(*factors)[i] : nullptr);
    if (context.copy)
      for (int64_t i = 0; i < length; ++i) context.copy->data<float>()[at * length + i] = row[i * step];
    if (context.channels && !outer && step == 1) {
      add_row(sums, row, length);
      ++sums.positions;
    } else if (context.channels) {
      for (int64_t i = 0; i < length; ++i) {
        const float number = row[i * step];
        const double x = number;
        const int64_t channel = outer ? second : i;
        sums.sum[channel] += x;
        sums.squares[channel] += x * x;
        sums.low[channel] = std::min(sums.low[channel], number);
        sums.high[channel] = std::max(sums.high[channel], number);
      }
      sums.positions += outer ? (second == 0) * length : 1;
    }
    if (context.histogram) {
      if (step == 1) block.insert(block.end(), row, row + length);
      else
        for (int64_t i = 0; i < length; ++i) block.push_back(row[i * step]);
      if (block.size() < block_floats) return;
      histogram.add(block.data(), static_cast<int64_t>(block.size()));
      block.clear();
    }
  });
  if (!context.histogram) return;
  histogram.add(block.data(), static_cast<int64_t>(block.size()));
  const std::lock_guard lock(merging_);
  context.histogram->merge(histogram);
}

quant::ChannelSums ValueObserver::channels(const std::string& value) const {
  quant::ChannelSums all;
  const auto gather = [&](const std::vector<Watched>& list) {
    for (const Watched& watched : list)
      if (program_->graph().value(watched.value).name == value)
        for (const quant::ChannelSums& sums : watched.sums) all.merge(sums);
  };
  for (const auto& [node, list] : contexts_) gather(list);
  for (const auto& [at, list] : input_contexts_) gather(list);
  return all;
}

}  // namespace tenon::compile

// SPDX-License-Identifier: Apache-2.0
#include "compile/reconstruct.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "quant/windows.h"

namespace tenon::compile {
namespace {

constexpr int64_t most_columns = 1152;  // of weights whose errors may make up for each other
constexpr int64_t fewest_windows = 8192;
constexpr int64_t windows_a_column = 12;
constexpr double damping = 0.01;                    // of the mean power of an input: few windows are not all there are
constexpr int64_t most_bytes = int64_t{128} << 20;  // of products at once
constexpr int most_sweeps = 12;
constexpr int64_t together = 8;  // windows

template <class F>
void on_all(ThreadPool& thread_pool, const F& function) {
  thread_pool.run([](void* context, const Worker& worker) { (*static_cast<const F*>(context))(worker); },
                  const_cast<F*>(&function));
}

/// Columns of a group that are chosen together, with the sums of their products over the windows.
struct Block {
  int64_t group, begin, columns;
  std::vector<float> products;
};

struct Layer {
  const ir::Node* node;
  std::string input;
  quant::WeightView view;
  quant::WeightQuantiser* weights;
  Tensor values;  // of the input, for one probe
  std::vector<Block> blocks;
  std::vector<double> sums;  // by group and column
  int64_t windows = 0;
};

/// Workers share the rows of the products.
void add_products(Block& block, const std::vector<float>& x, int64_t count, int64_t pitch, const Worker& worker) {
  const int64_t n = block.columns;
  for (int64_t at = 0; at < count; at += together) {
    const float* a = x.data() + at * pitch + block.begin;
    for (int64_t i = worker.id; i < n; i += worker.count) {
      float* row = block.products.data() + i * n;
      float own[together];
      for (int64_t k = 0; k < together; ++k) own[k] = a[k * pitch + i];
      for (int64_t j = 0; j <= i; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < together; ++k) sum += own[k] * a[k * pitch + j];
        row[j] += sum;
      }
    }
  }
}

void mirror(Block& block) {
  const int64_t n = block.columns;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j) block.products[j * n + i] = block.products[i * n + j];
}

/// Takes windows of a probe into a layer's sums.
void note(Layer& layer, const Dims& weights, size_t probes, size_t probe, ThreadPool& thread_pool) {
  const quant::Windows windows(*layer.node, layer.view, weights, layer.values.dims());
  const int64_t inner = layer.view.inner, groups = layer.view.groups;
  const float* const factors = layer.view.factors;
  const int64_t wanted =
      std::max(fewest_windows, windows_a_column * std::min(inner, most_columns)) / static_cast<int64_t>(probes) + 1;
  const int64_t count = std::min(wanted, windows.positions());
  std::mt19937_64 random(probe);
  std::vector<int64_t> positions;
  for (int64_t at = 0; at < count; ++at) {  // one of each stretch
    const int64_t begin = at * windows.positions() / count, end = (at + 1) * windows.positions() / count;
    positions.push_back(begin + static_cast<int64_t>(random() % static_cast<uint64_t>(end - begin)));
  }
  std::vector<float> x(static_cast<size_t>((count + together - 1) / together * together * inner));
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t at = 0; at < count; ++at) {
      windows.gather(layer.values.data<float>(), positions[at], group, x.data() + at * inner);
      for (int64_t i = 0; i < inner; ++i) {
        if (factors) x[at * inner + i] /= factors[layer.view.channel(group * layer.view.rows / groups, i)];
        layer.sums[group * inner + i] += x[at * inner + i];
      }
    }
    for (Block& block : layer.blocks)
      if (block.group == group)
        on_all(thread_pool, [&](const Worker& worker) { add_products(block, x, count, inner, worker); });
  }
  layer.windows += count;
}

/// Whether a weight may change by `step` where neighbours have to fit 16 bits together.
bool keeps_pair(const quant::WeightView& view, const std::vector<int8_t>& row, int64_t i, int step) {
  const int64_t channels = view.inner / view.taps, k = i % view.taps * channels + i / view.taps, other = k ^ 1;
  if (other >= view.inner) return true;
  return std::abs(row[i] + step + row[other % channels * view.taps + other / channels]) <= 128;
}

/// Coordinate descent for the columns of a block in one row.
void descend(const Layer& layer, const Block& block, int64_t row, const std::vector<int8_t>& nearest,
             std::vector<int8_t>& stored) {
  const float scale = layer.weights->scales[row];
  const int64_t n = block.columns;
  double power = 0;
  for (int64_t i = 0; i < n; ++i) power += block.products[i * n + i];
  const auto extra = static_cast<float>(damping * power / static_cast<double>(n));
  std::vector<float> slope(static_cast<size_t>(n));  // half of the error's, by column
  for (int64_t j = 0; j < n; ++j) {
    const float off = stored[block.begin + j] - layer.view.at(row, block.begin + j) / scale;
    const float* products = block.products.data() + j * n;
    for (int64_t i = 0; i < n; ++i) slope[i] += off * products[i];
    slope[j] += extra * off;
  }
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    bool changed = false;
    for (int64_t i = 0; i < n; ++i) {
      const float *products = block.products.data() + i * n, self = products[i] + extra;
      if (!(std::fabs(slope[i]) > self / 2)) continue;
      const int step = slope[i] > 0 ? -1 : 1;
      int8_t& weight = stored[block.begin + i];
      if (std::abs(weight + step) > 127 || std::abs(weight + step - nearest[block.begin + i]) > quant::most_change)
        continue;
      if (layer.weights->paired && !keeps_pair(layer.view, stored, block.begin + i, step)) continue;
      weight = static_cast<int8_t>(weight + step);
      for (int64_t j = 0; j < n; ++j) slope[j] += static_cast<float>(step) * products[j];
      slope[i] += static_cast<float>(step) * extra;
      changed = true;
    }
    if (!changed) return;
  }
}

/// Chooses a layer's weights and bias from its sums.
void choose(const ir::Graph& graph, Layer& layer, ThreadPool& thread_pool) {
  const quant::WeightView& view = layer.view;
  std::vector<int8_t> changes(static_cast<size_t>(view.rows * view.inner));
  std::vector<float> bias(static_cast<size_t>(view.rows));
  const Tensor* given = layer.node->inputs.size() > 2 ? graph.constant(layer.node->inputs[2]) : nullptr;
  for (Block& block : layer.blocks) mirror(block);
  on_all(thread_pool, [&](const Worker& worker) {
    for (int64_t row = worker.id; row < view.rows; row += worker.count) {
      const int64_t group = row / (view.rows / view.groups);
      const float scale = layer.weights->scales[row];
      const std::vector<int8_t> nearest = quant::store_row(view, row, scale, layer.weights->paired);
      std::vector<int8_t> stored = nearest;
      for (const Block& block : layer.blocks)
        if (block.group == group) descend(layer, block, row, nearest, stored);
      double sum = 0;
      for (int64_t i = 0; i < view.inner; ++i)
        sum += (view.at(row, i) - static_cast<float>(stored[i]) * scale) * layer.sums[group * view.inner + i];
      const float own = given ? given->data<float>()[given->elements() == 1 ? 0 : row] : 0;
      bias[row] = own + static_cast<float>(sum / static_cast<double>(layer.windows));
      for (int64_t i = 0; i < view.inner; ++i)
        changes[row * view.inner + i] = static_cast<int8_t>(stored[i] - nearest[i]);
    }
  });
  layer.weights->bias = std::move(bias);
  layer.weights->changes = std::move(changes);
}

std::vector<Layer> layers_of(const CalibrationContext& context, quant::Recipe& recipe) {
  std::vector<Layer> layers;
  for (const ir::Node& node : context.graph.nodes) {
    if (quant::role_of(context.graph, node) != quant::Role::anchor) continue;
    const auto found = recipe.anchors.find(quant::result_name(context.graph, node));
    if (found == recipe.anchors.end() || node.integer("transA", 0)) continue;
    layers.push_back({&node,
                      context.graph.value(node.inputs[0]).name,
                      quant::weights_of(context.graph, node, recipe.factors),
                      &found->second,
                      {},
                      {},
                      {}});
  }
  return layers;
}

/// Returns the bytes that it takes.
int64_t make_room(Layer& layer) {
  int64_t bytes = 0;
  const int64_t inner = layer.view.inner;
  const int64_t columns = std::max<int64_t>(most_columns / layer.view.taps, 1) * layer.view.taps;
  for (int64_t group = 0; group < layer.view.groups; ++group)
    for (int64_t begin = 0; begin < inner; begin += columns) {
      const int64_t count = std::min(columns, inner - begin);
      const auto products = static_cast<size_t>(count * count);
      bytes += static_cast<int64_t>(products * sizeof(float));
      layer.blocks.push_back({group, begin, count, std::vector<float>(products)});
    }
  layer.sums.resize(static_cast<size_t>(layer.view.groups * inner));
  return bytes;
}

}  // namespace

quant::Recipe reconstruct(const CalibrationContext& context, quant::Recipe recipe) {
  std::vector<Layer> layers = layers_of(context, recipe);
  ValueObserver observer(judged_graph(context.graph), context.shapes, context.thread_pool, context.setting.records);
  const size_t probes = context.seen.probes.size();
  for (size_t begin = 0, end; begin < layers.size(); begin = end) {
    observer.forget();
    int64_t bytes = 0;
    for (end = begin; end < layers.size() && (end == begin || bytes < most_bytes); ++end) {
      bytes += make_room(layers[end]);
      observer.watch(layers[end].input, {.copy = &layers[end].values});
      bytes += static_cast<int64_t>(layers[end].values.bytes());
    }
    for (size_t probe = 0; probe < probes; ++probe) {
      observer.run(context.seen.probes[probe].inputs);
      for (size_t at = begin; at < end; ++at)
        if (layers[at].values.bytes() > 0)
          note(layers[at], context.graph.constant(layers[at].node->inputs[1])->dims(), probes, probe,
               context.thread_pool);
    }
    for (size_t at = begin; at < end; ++at) {
      if (layers[at].windows > 0) choose(context.graph, layers[at], context.thread_pool);
      layers[at].blocks = {}, layers[at].values = {};
    }
    context.report("reconstruct weights", static_cast<double>(end) / static_cast<double>(layers.size()));
  }
  recipe.error = context.error(recipe);
  return recipe;
}

}  // namespace tenon::compile

// SPDX-License-Identifier: Apache-2.0
#include "compile/round_weights.h"

#include <tenon/error.h>

#include <algorithm>
#include <map>

#include "compile/observe.h"
#include "passes/pass.h"
#include "quant/data_loader.h"

namespace tenon::compile {
namespace {

constexpr int64_t most_sum_bytes = int64_t{128} << 20;  // of sums at once
constexpr size_t most_input_bytes = size_t{64} << 20;   // of inputs that are kept

/// Of products that read the same value.
struct ProductInput {
  quant::InputProducts products;
  Tensor value;  // for one batch
};

std::vector<std::vector<Tensor>> batches_of(const ir::Graph& graph, const Setting& setting,
                                            const BuildOptions& options) {
  const ir::Graph concrete = plan::concretise(graph, batch_shapes(graph, setting));
  quant::DataLoader loader(concrete, *options.calibrator, setting.options.count);
  std::vector<std::vector<Tensor>> batches;
  size_t bytes = 0;
  while (const auto batch = loader.next()) {
    std::vector<Tensor> inputs;
    for (const Tensor& input : batch->inputs) bytes += input.bytes(), inputs.push_back(input.copy());
    batches.push_back(std::move(inputs));
    if (bytes > most_input_bytes) break;
  }
  return batches;
}

class Rounder {
 public:
  Rounder(plan::Plan& plan, const BuildOptions& options)
      : graph_(plan.graph),
        form_{options.weights == Weights::int4 ? 4 : 8, options.weight_block},
        thread_pool_(plan.threads),
        products_(quant::products_to_round(plan.graph)) {
    setting_.options = options.calibration, setting_.shapes = options.shapes, setting_.threads = plan.threads;
  }

  quant::RoundedWeights nearest() {
    for (const ir::NodeId product : products_)
      quant::round_product(graph_, product, form_, nullptr, thread_pool_, all_);
    return all_;
  }

  quant::RoundedWeights compensated(const BuildOptions& options, int64_t& rows) {
    const std::vector<std::vector<Tensor>> batches = batches_of(graph_, setting_, options);
    rows = -1;
    while (!products_.empty()) {
      inputs_.clear();
      int64_t bytes = 0;
      size_t end = 0;
      for (; end < products_.size() && (end == 0 || bytes < most_sum_bytes); ++end) bytes += add(products_[end]);
      observe(batches);
      for (auto& [name, input] : inputs_) {
        if (rows < 0 || input.products.rows() < rows) rows = input.products.rows();
        if (input.products.rows() > 0) input.products.factorise(thread_pool_);
      }
      for (size_t at = 0; at < end; ++at) {
        const ProductInput& input = inputs_.at(name_of(products_[at]));
        quant::round_product(graph_, products_[at], form_, input.products.rows() > 0 ? &input.products : nullptr,
                             thread_pool_, all_);
      }
      graph_.tidy();
      products_ = quant::products_to_round(graph_);
      const double done = static_cast<double>(all_.products) / static_cast<double>(total_);
      if (options.progress && !options.progress("round weights", done, -1))
        throw Error(Code::usage, "the build was cancelled");
    }
    return all_;
  }

 private:
  const std::string& name_of(ir::NodeId product) const { return graph_.value(graph_.node(product).inputs[0]).name; }
  int64_t add(ir::NodeId product) {
    const int64_t columns = quant::columns_of(graph_, product);
    const bool added =
        inputs_.try_emplace(name_of(product), ProductInput{quant::InputProducts(columns, form_.block), {}}).second;
    return added ? quant::InputProducts::bytes(columns, form_.block) : 0;
  }
  void observe(const std::vector<std::vector<Tensor>>& batches) {
    ir::Graph exact = graph_;
    passes::run_pass(exact, "fold_weights");
    ValueObserver observer(std::move(exact), batch_shapes(graph_, setting_), thread_pool_, setting_.records);
    for (auto& [name, input] : inputs_) observer.watch(name, {.copy = &input.value});
    for (size_t at = 0; at < batches.size(); ++at) {
      observer.run(batches[at]);
      for (auto& [name, input] : inputs_) note(input, batches.size() - at);
    }
  }
  /// Rows of a value, evenly from all batches that are left.
  void note(ProductInput& input, size_t left) {
    const int64_t columns = input.products.pieces().back().begin + input.products.pieces().back().count;
    const int64_t rows = input.value.bytes() > 0 ? input.value.elements() / columns : 0,
                  missing = input.products.wanted() - input.products.rows();
    const int64_t wanted = std::min(rows, (missing + static_cast<int64_t>(left) - 1) / static_cast<int64_t>(left));
    if (wanted <= 0) return;
    std::vector<float> taken(static_cast<size_t>(wanted * columns));
    for (int64_t at = 0; at < wanted; ++at)
      std::copy_n(input.value.data<float>() + at * rows / wanted * columns, columns, taken.data() + at * columns);
    input.products.add(taken.data(), wanted, thread_pool_);
  }

  ir::Graph& graph_;
  quant::BlockForm form_;
  Setting setting_;
  ThreadPool thread_pool_;
  std::vector<ir::NodeId> products_;
  int64_t total_ = static_cast<int64_t>(products_.size());
  std::map<std::string, ProductInput> inputs_;
  quant::RoundedWeights all_;
};

}  // namespace

quant::RoundedWeights round_weights(plan::Plan& plan, const BuildOptions& options, int64_t* rows) {
  Rounder rounder(plan, options);
  int64_t seen = 0;
  const bool compensates = options.calibrator && options.weights == Weights::int4;
  const quant::RoundedWeights all = compensates ? rounder.compensated(options, seen) : rounder.nearest();
  if (rows) *rows = seen;
  return all;
}

}  // namespace tenon::compile

// SPDX-License-Identifier: Apache-2.0
#include "compile/memory_budget.h"

#include <fmt/format.h>
#include <tenon/error.h>
#include <tenon/limits.h>

#include "base/checked.h"
#include "base/memory.h"
#include "compile/observe.h"

namespace tenon::compile {
namespace {

/// Bytes of a run, of the inputs and outputs of one batch, and of the weights.
struct Need {
  int64_t arena = 0, ends = 0, weights = 0, graphs = 2;
  /// For graphs side by side, with weights that some kernels pack to four times their size, the probes, and what of
  /// a batch is read, kept and changed.
  int64_t all() const {
    constexpr auto most = static_cast<int64_t>(quant::Observations::most_probes);
    const int64_t probes =
        std::min(most * ends, std::max(static_cast<int64_t>(quant::Observations::probe_bytes), ends));
    return graphs * arena + 5 * ends + probes + 8 * weights;
  }
  /// For one graph and a batch, with nothing kept.
  int64_t least() const { return arena + 2 * ends + 2 * weights; }
};

Need need_of(const ir::Graph& graph, const Setting& setting) {
  const ir::Graph concrete = plan::concretise(graph, batch_shapes(graph, setting));
  Need need;
  if (!plan::is_static(concrete)) return need;
  need.arena = plan::lay_out(concrete).arena_bytes;
  if (is_judged_apart(graph)) ++need.graphs;
  for (const ir::Value& value : concrete.values)
    if (value.is_constant()) need.weights += static_cast<int64_t>(value.constant.bytes());
  for (const auto* list : {&concrete.inputs, &concrete.outputs})
    for (const ir::ValueId id : *list) {
      Dims dims;
      for (const ir::Dim& dim : *concrete.value(id).shape) dims.push_back(dim.value());
      need.ends += checked_mul(dims.elements(), static_cast<int64_t>(size_of(concrete.value(id).dtype)), "size");
    }
  return need;
}

bool fits(int64_t bytes) {
  if (!take_memory(bytes)) return false;
  give_memory_back(bytes, current_budget().get());
  return true;
}

bool fits_well(const ir::Graph& graph, const Setting& setting) {
  try {
    return fits(need_of(graph, setting).all());
  } catch (const Error& error) {
    if (error.code() != Code::resource) throw;
    return false;
  }
}

}  // namespace

int64_t bytes_of_calibration(const ir::Graph& graph, Setting setting) {
  setting.options.batch = std::min<int64_t>(setting.options.batch, 1);
  return need_of(graph, setting).all();
}

Setting fit_batch(const ir::Graph& graph, Setting setting) {
  const int64_t asked = setting.options.batch;
  while (setting.options.batch > 1 && !fits_well(graph, setting)) {
    const Shapes before = batch_shapes(graph, setting);
    setting.options.batch /= 2;
    if (batch_shapes(graph, setting) == before) {
      setting.options.batch = asked;
      break;
    }
  }
  if (setting.options.batch != asked)
    setting.logger.log(Severity::warning,
                       fmt::format("calibrating in batches of {}, as {} do not fit {}", setting.options.batch, asked,
                                   memory_text(limits_in_force().memory_bytes)));
  const int64_t least = need_of(graph, setting).least();
  if (!fits(least))
    throw Error(Code::resource, "calibration does not fit the memory that it may take",
                {.why = fmt::format("a batch takes {}, the limit for all tensors is {}", memory_text(least),
                                    memory_text(limits_in_force().memory_bytes)),
                 .hint = "raise the limit with --max-memory, or give smaller --shapes"});
  return setting;
}

}  // namespace tenon::compile

#include "quant/fit.h"

#include <fmt/format.h>
#include <tenon/error.h>
#include <tenon/limits.h>

#include "base/checked.h"
#include "base/memory.h"
#include "quant/observe.h"

namespace tenon::quant {
namespace {

/// Bytes of a run, and of the inputs and outputs of one batch.
struct Need {
  int64_t arena = 0, ends = 0;
};

Need need_of(const ir::Graph& graph, const Setting& setting) {
  const ir::Graph concrete = plan::concretise(graph, batch_shapes(graph, setting));
  Need need;
  if (!plan::is_static(concrete)) return need;
  need.arena = plan::lay_out(concrete).arena_bytes;
  for (const auto* list : {&concrete.inputs, &concrete.outputs})
    for (const ir::ValueId id : *list) {
      Dims dims;
      for (const ir::Dim& dim : *concrete.value(id).shape) dims.push_back(dim.value());
      need.ends += checked_mul(dims.elements(), static_cast<int64_t>(size_of(concrete.value(id).dtype)), "bytes");
    }
  return need;
}

bool fits(int64_t bytes) {
  if (!take_memory(bytes)) return false;
  give_memory_back(bytes);
  return true;
}

/// Whether a batch fits with all that calibration keeps: two graphs side by side, the probes, and the batch itself.
bool fits_well(const ir::Graph& graph, const Setting& setting) {
  try {
    const Need need = need_of(graph, setting);
    return fits(2 * need.arena + (2 + static_cast<int64_t>(Observations::most_probes)) * need.ends);
  } catch (const Error& error) {
    if (error.code() != Code::resource) throw;
    return false;
  }
}

}  // namespace

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
  if (setting.options.batch != asked && setting.warn)
    setting.warn(fmt::format("calibrating in batches of {}, as {} do not fit {}", setting.options.batch, asked,
                             memory_text(limits().memory_bytes)));
  // Less than this no run can do with.
  const Need need = need_of(graph, setting);
  if (!fits(need.arena + need.ends))
    throw Error(Code::resource, "calibration does not fit the memory that it may take",
                {.why = fmt::format("a batch takes {}, the limit for all tensors is {}",
                                    memory_text(need.arena + need.ends), memory_text(limits().memory_bytes)),
                 .hint = "raise the limit with --max-memory, or give smaller --shapes"});
  return setting;
}

}  // namespace tenon::quant

// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/reduction/lp_norm_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/reduction/strided_rows.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::lp_norm {
namespace {

using Params = LpNormParams;

constexpr int64_t threads = 256, most_each = 64;  // elements that a thread holds
constexpr int64_t least_split = 1024;             // elements of a row that several blocks may share
constexpr int64_t least_chunk = 64, most_tiles = 65535;

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!is_real(x.dtype) || x.dtype != y.dtype) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (x.dims.rank() == 0) return {Reason::shape, "the input", "an axis"};
  Params params;
  if (!set_strided_rows(problem, params) || params.rows >= int64_t{1} << 31)
    return {Reason::too_many, most_row_axes, "axes of rows"};
  return params.rows > most_tiles && params.length > threads * most_each ? Reason(Reason::too_large) : Reason();
}

/// Rows of a block that shares them with others: neighbours, where their elements alternate.
int split_rows(const Params& params) { return params.x_step == 1 ? 1 : 32; }

/// Blocks of each row that give every multiprocessor two; 1 where rows are short or enough.
int64_t parts_of(const Params& params, const Properties& properties) {
  const int64_t tiles = ceil_div(params.rows, split_rows(params));
  if (params.length < least_split || tiles > most_tiles) return 1;
  return std::clamp<int64_t>(2 * properties.multiprocessors / tiles, 1, params.length / least_chunk);
}

/// Blocks of as many rows as leave each thread 4 to 16 elements or so, where rows are long.
std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  Params params;
  set_strided_rows(problem, params);
  const bool across = params.x_step != 1;
  std::vector<Tactic> list;
  const auto add = [&](const std::string& name, int rows, std::vector<std::string> defines) {
    Source source{"lp_norm.cu", std::move(defines), ""};
    source.defines.push_back(define_type("ELEMENT", problem.inputs[0].dtype));
    source.defines.push_back(define("P", problem.node->integer("p", 2)));
    list.push_back({name, {source}, {rows, 0}});
  };
  const int64_t parts = parts_of(params, properties);
  if (parts > 1 || params.length > threads * most_each) {
    add("norms in " + std::to_string(parts) + " parts", split_rows(params),
        {define("SPLIT", 1), define("ROWS", split_rows(params))});
    list.back().numbers[1] = static_cast<int>(parts);
  }
  Params other = params;
  if (const auto held = held_rows(problem, other); held && held->inner == 1)
    add("held", static_cast<int>(threads) / held->lanes,
        {define("LANES", held->lanes), define("PIECES", held->pieces), define("VEC", held->vector),
         define("LENGTH", params.length)});
  for (const int rows : {16, 32, 8, 1}) {
    const int64_t each = ceil_div(params.length, threads / rows);
    if (each > most_each || (rows == 1 && !list.empty() && parts == 1)) continue;
    add("norms of " + std::to_string(rows), rows,
        {define("PIECES", 0), define("ROWS", rows), define("EACH", each), define("ACROSS", across)});
  }
  return list;
}

/// Sums of the parts of rows, then quotients.
class SplitStep : public Step {
 public:
  SplitStep(Device& device, const Tactic& tactic, const Params& params)
      : device_(device),
        sums_(device.function(tactic.sources[0], "part_sums")),
        quotients_(device.function(tactic.sources[0], "lp_norm")),
        params_(params) {
    params_.parts = tactic.numbers[1];
    params_.chunk = ceil_div(params_.length, params_.parts);
    grid_ = {params_.parts, ceil_div(params_.rows, tactic.numbers[0]), 1, static_cast<int>(threads), 0};
  }
  size_t workspace_bytes() const override { return static_cast<size_t>(params_.parts * params_.rows) * sizeof(float); }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.outputs[0], params.sums = at.workspace;
    launch(device_, sums_, grid_, at, params);
    launch(device_, quotients_, grid_, at, params);
  }

 private:
  Device& device_;
  Function sums_, quotients_;
  Params params_;
  Grid grid_;
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Params params;
  set_strided_rows(problem, params);
  params.epsilon = problem.node->real("epsilon", 0);
  if (tactic.numbers[1] > 0) return std::make_unique<SplitStep>(device, tactic, params);
  return simple_step<1>(device, tactic, "lp_norm", params,
                        {ceil_div(params.rows, tactic.numbers[0]), 1, 1, static_cast<int>(threads), 0});
}

const KernelRegistrar registered({"LpNormalization", "norms", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::lp_norm

// SPDX-License-Identifier: Apache-2.0
#include "compile/weight_only.h"

#include <fmt/format.h>
#include <tenon/judge.h>

#include "backends/backend.h"
#include "base/counted.h"
#include "compile/latency_check.h"
#include "engine/engine.h"
#include "compile/round_weights.h"

namespace tenon::compile {
namespace {

void check(const plan::Plan& plan, const BuildOptions& options) {
  const char* const where = "--weights";
  if (is_quantised(plan.goal.precision))
    throw Error(Code::usage, "weights alone are not rounded where data are, too",
                {.where = where, .hint = "leave out --precision " + std::string(name(plan.goal.precision))});
  if (backends::backend(plan.device).kernels("tenon:WeightOnlyMatMul").empty())
    throw Error(Code::unsupported, plan.device.str() + " does not multiply floats by integers",
                {.where = where, .hint = "leave out --device, or --weights"});
  const int block = options.weight_block;
  if (block < 16 || block > 256 || (block & (block - 1)))
    throw Error(Code::usage, "blocks of " + counted(block, "weight"),
                {.where = "--weight-block", .hint = "give 16, 32, 64, 128 or 256"});
}

}  // namespace

plan::Plan plan_weight_only(plan::Plan plan, const BuildOptions& options,
                            const std::function<void(plan::Plan&)>& finish) {
  check(plan, options);
  const bool four = options.weights == Weights::int4;
  const char* const kind = four ? "INT4" : "INT8";
  plan::Plan exact = plan;
  int64_t rows = 0;
  const quant::RoundedWeights rounded = round_weights(plan, options, &rows);
  if (rounded.products == 0)
    throw Error(Code::usage, "the model has no product with so many constant weights",
                {.where = "--weights",
                 .why = "they are those of MatMul and Gemm, from " + std::to_string(quant::least_weights) + " on"});
  std::string what = fmt::format(
      "{:.1f} million weights of {} products are in {}, {} to a scale, and move by {:.2f} % of their size",
      static_cast<double>(rounded.weights) / 1e6, rounded.products, kind, options.weight_block, rounded.error * 100);
  if (rows > 0) what += fmt::format(", each to make up for the others on {} of data", counted(rows, "row"));
  options.logger.log(Severity::info, what);
  if (!options.judge) {
    finish(plan);
    return plan;
  }
  finish(exact);
  const double value = options.judge->reference(engine_of(exact));
  finish(plan);
  const Score score = options.judge->score(engine_of(plan));
  const double limit = options.max_drop.value_or(options.judge->usual_drop());
  plan::Search search{options.judge->metric(), options.judge->samples(), limit, {{0, value}}, what};
  if (!options.max_drop) search.reason = options.judge->limit_reason();
  search.points.push_back(
      {0, score.value, score.drop, score.low, score.high, 0, {}, true, four ? "int4" : "int8", score.objection});
  if (options.budget_seconds != 0 && plan::is_static(plan::concretise(exact.graph, exact.shapes))) {
    const auto [exact_us, rounded_us] = benchmark(exact, plan);
    search.points[0].milliseconds = exact_us / 1e3, search.points[1].milliseconds = rounded_us / 1e3;
  }
  if (score.drop > limit || !score.objection.empty())
    options.logger.log(
        Severity::warning,
        fmt::format("weights in {} lose {:.2f} points, and {:g} are the limit{}{}: {}", kind, score.drop, limit,
                    score.objection.empty() ? "" : "; ", score.objection,
                    four ? "--weights int8 loses less, or a smaller --weight-block" : "leave them in floating point"));
  plan.evidence.search = search;
  return plan;
}

}  // namespace tenon::compile

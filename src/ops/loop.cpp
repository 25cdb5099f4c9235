// SPDX-License-Identifier: Apache-2.0
#include "ops/subgraph.h"

namespace tenon::ops::loop {
namespace {

/// Inputs: trip count, condition, carried values, captures. The body takes round, condition, carried values, captures,
/// and gives condition, carried values, scan outputs.
struct Parts {
  size_t carried, captures, scans;
};

template <class Context>
Parts parts_of(Context& ctx) {
  const int64_t captures = capture_count(ctx.node());
  const auto inputs = static_cast<int64_t>(ctx.inputs());
  if (inputs < 2 || captures < 0 || captures > inputs - 2) ctx.fail("captures is " + std::to_string(captures));
  const auto carried = static_cast<size_t>(inputs - 2 - captures);
  if (ctx.outputs() < carried) ctx.fail("fewer outputs than carried values");
  return {carried, static_cast<size_t>(captures), ctx.outputs() - carried};
}

/// Counts the loops that inference is in.
class Nested {
 public:
  Nested() { ++depth_; }
  ~Nested() { --depth_; }
  Nested(const Nested&) = delete;
  bool deep() const { return depth_ > 4; }

 private:
  static inline thread_local int depth_ = 0;
};

/// How often the body runs, where nothing but the trip count decides that.
std::optional<ir::Dim> rounds_of(Inference& ctx, const ir::Graph& body) {
  if (!ctx.has(0) || !always_goes_on(body)) return std::nullopt;
  if (ctx.has(1)) {
    const Tensor* condition = ctx.constant(1);
    if (!condition) return std::nullopt;
    if (!truth(ctx, *condition)) return ir::Dim(0);
  }
  const auto trips = ctx.content(0);
  if (!trips || trips->size() != 1) return std::nullopt;
  return (*trips)[0].is_constant() ? ir::Dim(std::max<int64_t>(0, (*trips)[0].value())) : (*trips)[0];
}

void infer_loop(Inference& ctx) {
  const Parts parts = parts_of(ctx);
  const ir::Graph& body = subgraph(ctx, "body", ctx.inputs(), ctx.outputs() + 1);
  want_integers(ctx, 0, "the trip count");
  want_one(ctx, 0, "the trip count");
  want_condition(ctx, ctx.dtype(1), ctx.shape(1), "the condition");
  std::vector<Known> inputs{{DType::i64, ir::Shape{}, {}, {}}, {DType::boolean, ir::Shape{}, {}, {}}};
  for (size_t at = 2; at < ctx.inputs(); ++at) {
    inputs.push_back(known_input(ctx, at));
    if (at >= 2 + parts.carried) continue;
    inputs[at].constant = {};
    if (inputs[at].dtype != DType::sequence) inputs[at].content.reset();
  }
  std::vector<Known> outputs;
  const Nested nested;
  // Each round can only lose knowledge of a carried value's shape: first sizes, then its rank. Loops that stand deep in
  // others take no rounds, as those of each would be taken in each of the loop's around it.
  if (nested.deep())
    for (size_t at = 0; at < parts.carried; ++at) inputs[2 + at].shape.reset();
  for (int round = 0; round < (nested.deep() ? 1 : 4); ++round) {
    outputs = infer_subgraph(ctx, body, inputs);
    bool stable = true;
    for (size_t at = 0; at < parts.carried; ++at) {
      Known& input = inputs[2 + at];
      Known merged = merge(ctx, input, outputs[1 + at], "c" + std::to_string(at));
      if (round == 2) merged.shape.reset();
      if (!(merged.shape == input.shape) || merged.dtype != input.dtype) stable = false;
      input = std::move(merged);
    }
    if (stable) break;
  }
  const std::optional<ir::Shape>& again = outputs[0].shape;
  want_condition(ctx, outputs[0].dtype, again ? &*again : nullptr, "the condition that the body gives");
  for (size_t at = 0; at < parts.carried; ++at) set_known(ctx, at, inputs[2 + at]);
  const std::optional<ir::Dim> known_rounds = rounds_of(ctx, body);
  for (size_t at = 0; at < parts.scans; ++at) {
    Known scan = outputs[1 + parts.carried + at];
    if (scan.shape)
      scan.shape->insert(scan.shape->begin(), known_rounds ? *known_rounds : tagged_unknown(ctx, "rounds"));
    scan.content.reset();
    set_known(ctx, parts.carried + at, scan);
  }
}

void evaluate_loop(Evaluation& ctx) {
  const Parts parts = parts_of(ctx);
  const ir::Graph& body = subgraph(ctx, "body", ctx.inputs(), ctx.outputs() + 1);
  int64_t rounds = INT64_MAX;
  if (ctx.has(0)) {
    const std::vector<int64_t> count = ctx.integers(0);
    if (count.size() != 1) ctx.fail("the trip count is not one number");
    rounds = count[0];
  }
  Tensor condition(DType::boolean, {});
  *condition.data<uint8_t>() = ctx.has(1) ? truth(ctx, ctx.input(1)) : true;
  std::vector<Tensor> carried;
  for (size_t at = 0; at < parts.carried; ++at) carried.push_back(ctx.input(2 + at));
  std::vector<std::vector<Tensor>> scans(parts.scans);
  Rounds counter;
  for (int64_t round = 0; round < rounds && truth(ctx, condition); ++round) {
    counter.next(ctx.node());
    Tensor number(DType::i64, {});
    *number.data<int64_t>() = round;
    std::vector<Tensor> inputs{number, condition};
    for (Tensor& tensor : carried) inputs.push_back(std::move(tensor));
    for (size_t at = 0; at < parts.captures; ++at) inputs.push_back(ctx.input(2 + parts.carried + at));
    std::vector<Tensor> results = ctx.run(body, std::move(inputs));
    condition = results[0];
    for (size_t at = 0; at < parts.carried; ++at) carried[at] = std::move(results[1 + at]);
    for (size_t at = 0; at < parts.scans; ++at) scans[at].push_back(std::move(results[1 + parts.carried + at]));
  }
  std::vector<ir::Value> empty(body.outputs.size());
  if (parts.scans > 0 && scans[0].empty()) {
    std::vector<Tensor> inputs{Tensor(DType::i64, {}), condition};
    for (size_t at = 2; at < ctx.inputs(); ++at) inputs.push_back(ctx.input(at));
    empty = promised(body, inputs);
  }
  for (size_t at = 0; at < parts.carried; ++at) ctx.set(at, std::move(carried[at]));
  for (size_t at = 0; at < parts.scans; ++at)
    ctx.set(parts.carried + at, stack(ctx, scans[at], 0, false, empty[1 + parts.carried + at]));
}

TENON_OP("Loop", 0, -1, 0, -1, infer_loop, evaluate_loop,
         AttributeDefs{attr::graph("body").required()} + captures_attribute());
const FlowRegistrar flow("Loop", Flow::loop);

}  // namespace
}  // namespace tenon::ops::loop

// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"
#include "ops/broadcast.h"
#include "ops/dispatch.h"
#include "ops/subgraph.h"

namespace tenon::ops::scan {
namespace {

/// Inputs: states, scanned tensors, captures. The body takes states, one slice of each, captures, and gives states and
/// scan outputs.
struct Parts {
  size_t states, scanned, captures, scans;
  std::vector<int64_t> input_axes, input_directions, output_axes, output_directions;
};

template <class Context>
Parts parts_of(Context& ctx) {
  const ir::Node& node = ctx.node();
  const int64_t captures = capture_count(node), scanned = node.integer("num_scan_inputs", 1);
  const auto inputs = static_cast<int64_t>(ctx.inputs());
  if (captures < 0 || scanned < 1 || captures > inputs || scanned > inputs - captures)
    ctx.fail("num_scan_inputs is " + std::to_string(scanned) + " for " + counted(inputs, "input"));
  Parts parts{static_cast<size_t>(inputs - captures - scanned),
              static_cast<size_t>(scanned),
              static_cast<size_t>(captures),
              0,
              {},
              {},
              {},
              {}};
  if (ctx.outputs() < parts.states) ctx.fail("fewer outputs than states");
  parts.scans = ctx.outputs() - parts.states;
  const auto list = [&](const char* name, size_t count) {
    std::vector<int64_t> values = node.integers(name);
    if (values.empty()) values.assign(count, 0);
    if (values.size() != count) ctx.fail(std::string(name) + " has the wrong number of entries");
    return values;
  };
  parts.input_axes = list("scan_input_axes", parts.scanned);
  parts.input_directions = list("scan_input_directions", parts.scanned);
  parts.output_axes = list("scan_output_axes", parts.scans);
  parts.output_directions = list("scan_output_directions", parts.scans);
  return parts;
}

void infer_scan(Inference& ctx) {
  const Parts parts = parts_of(ctx);
  const ir::Graph& body = subgraph(ctx, "body", ctx.inputs(), ctx.outputs());
  std::vector<Known> inputs;
  std::optional<ir::Dim> length;
  for (size_t at = 0; at < ctx.inputs(); ++at) {
    inputs.push_back(known_input(ctx, at));
    if (at >= parts.states + parts.scanned) continue;
    inputs[at].constant = {};
    inputs[at].content.reset();
    if (at < parts.states || !inputs[at].shape) continue;
    const size_t axis = normal_axis(ctx, parts.input_axes[at - parts.states], inputs[at].shape->size());
    const ir::Dim size = (*inputs[at].shape)[axis];
    if (length && differ(*length, size))
      ctx.fail("scanned tensors have lengths " + length->str() + " and " + size.str());
    if (!length || size.is_constant()) length = size;
    inputs[at].shape->erase(inputs[at].shape->begin() + static_cast<int64_t>(axis));
  }
  const std::vector<Known> outputs = infer_subgraph(ctx, body, inputs);
  for (size_t at = 0; at < parts.states; ++at)
    set_known(ctx, at, merge(ctx, inputs[at], outputs[at], "s" + std::to_string(at)));
  for (size_t at = 0; at < parts.scans; ++at) {
    Known scan = outputs[parts.states + at];
    if (scan.shape) {
      const size_t axis = normal_axis(ctx, parts.output_axes[at], scan.shape->size() + 1);
      scan.shape->insert(scan.shape->begin() + static_cast<int64_t>(axis),
                         length ? *length : tagged_unknown(ctx, "length"));
    }
    set_known(ctx, parts.states + at, scan);
  }
}

/// Entry `index` along an axis, which goes away.
Tensor slice(Evaluation& ctx, const Tensor& from, size_t axis, int64_t index) {
  const Around parts = around(from.dims(), axis);
  Dims dims = from.dims();
  dims.erase(axis);
  Tensor to(from.dtype(), dims);
  dispatch_moved(ctx, from.dtype(), [&]<class T>(Type<T>) {
    for (int64_t outer = 0; outer < parts.outer; ++outer)
      std::copy_n(elements_of<T>(from) + (outer * parts.size + index) * parts.inner, parts.inner,
                  elements_of<T>(to) + outer * parts.inner);
  });
  return to;
}

void evaluate_scan(Evaluation& ctx) {
  const Parts parts = parts_of(ctx);
  const ir::Graph& body = subgraph(ctx, "body", ctx.inputs(), ctx.outputs());
  std::vector<Tensor> states;
  for (size_t at = 0; at < parts.states; ++at) states.push_back(ctx.input(at));
  int64_t length = -1;
  std::vector<size_t> axes;
  for (size_t at = 0; at < parts.scanned; ++at) {
    const Dims& dims = ctx.input(parts.states + at).dims();
    axes.push_back(normal_axis(ctx, parts.input_axes[at], dims.rank()));
    if (length >= 0 && dims[axes[at]] != length) ctx.fail("scanned tensors are of different lengths");
    length = dims[axes[at]];
  }
  std::vector<std::vector<Tensor>> scans(parts.scans);
  Rounds counter;
  for (int64_t round = 0; round < length; ++round) {
    counter.next(ctx.node());
    std::vector<Tensor> inputs = states;
    for (size_t at = 0; at < parts.scanned; ++at)
      inputs.push_back(
          slice(ctx, ctx.input(parts.states + at), axes[at], parts.input_directions[at] ? length - 1 - round : round));
    for (size_t at = 0; at < parts.captures; ++at) inputs.push_back(ctx.input(parts.states + parts.scanned + at));
    std::vector<Tensor> results = ctx.run(body, std::move(inputs));
    for (size_t at = 0; at < parts.states; ++at) states[at] = std::move(results[at]);
    for (size_t at = 0; at < parts.scans; ++at) scans[at].push_back(std::move(results[parts.states + at]));
  }
  std::vector<ir::Value> empty(body.outputs.size());
  if (length <= 0) {
    std::vector<Tensor> inputs;
    for (size_t at = 0; at < ctx.inputs(); ++at) {
      inputs.push_back(ctx.input(at));
      if (at < parts.states || at >= parts.states + parts.scanned) continue;
      Dims dims = inputs[at].dims();
      dims.erase(axes[at - parts.states]);
      inputs[at] = Tensor(inputs[at].dtype(), dims);
    }
    empty = promised(body, inputs);
  }
  for (size_t at = 0; at < parts.states; ++at) ctx.set(at, std::move(states[at]));
  for (size_t at = 0; at < parts.scans; ++at) {
    const ir::Value& one = empty[parts.states + at];
    const size_t rank = !scans[at].empty() ? scans[at][0].dims().rank() : one.shape ? one.shape->size() : 0;
    const size_t axis = scans[at].empty() && !one.shape ? 0 : normal_axis(ctx, parts.output_axes[at], rank + 1);
    ctx.set(parts.states + at, stack(ctx, scans[at], axis, parts.output_directions[at] != 0, one));
  }
}

TENON_OP("Scan", 1, -1, 1, -1, infer_scan, evaluate_scan,
         AttributeDefs{
             attr::graph("body").required(), attr::integers("directions").between(0, 1).up_to(8),
             attr::integer("num_scan_inputs").at_least(1).required(), attr::integers("scan_input_axes").from(9),
             attr::integers("scan_input_directions").between(0, 1).from(9), attr::integers("scan_output_axes").from(9),
             attr::integers("scan_output_directions").between(0, 1).from(9)} +
             captures_attribute());
const FlowRegistrar flow("Scan", Flow::loop);

}  // namespace
}  // namespace tenon::ops::scan

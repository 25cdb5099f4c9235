// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"
#include "ops/inference.h"
#include "ops/layout.h"

/// Internal op MaxPools: several max pools of one input of channels last, as a pyramid of pools has them. Attribute
/// windows: odd sizes of square windows, an output for each; strides are 1 and padding keeps the size.
namespace tenon::ops::max_pools {
namespace {

void infer(Inference& ctx) {
  const ir::Shape* shape = ctx.shape(0);
  const std::vector<int64_t> windows = ctx.node().integers("windows");
  if (!channels_last(ctx)) ctx.fail("only layout NHWC");
  if (windows.size() != ctx.outputs())
    ctx.fail(counted(windows.size(), "window") + " for " + counted(ctx.outputs(), "output"));
  for (int64_t window : windows)
    if (window % 2 == 0) ctx.fail("a window is of the even size " + std::to_string(window));
  if (shape && shape->size() != 4) ctx.fail("the input has rank " + std::to_string(shape->size()) + ", not 4");
  for (size_t at = 0; at < windows.size(); ++at)
    ctx.set(at, ctx.dtype(0), shape ? std::optional(*shape) : std::nullopt);
}

void evaluate(Evaluation& ctx) {
  const std::vector<int64_t> windows = ctx.node().integers("windows");
  for (size_t at = 0; at < windows.size(); ++at) {
    const int64_t window = windows[at], pad = window / 2;
    ir::Node pool;
    pool.op = "MaxPool";
    pool.attributes = {{"layout", std::string("NHWC")},
                       {"kernel_shape", std::vector<int64_t>{window, window}},
                       {"pads", std::vector<int64_t>{pad, pad, pad, pad}}};
    pool.outputs = {0};
    ctx.set(at, ops::evaluate(pool, std::vector<Tensor>{ctx.input(0)})[0]);
  }
}

TENON_OP("tenon:MaxPools", 1, 1, 2, 4, infer, evaluate,
         layout_attribute() + AttributeDefs{attr::integers("windows").between(2, 255).required().internal()},
         Trait::group | Reduction::largest);

}  // namespace
}  // namespace tenon::ops::max_pools

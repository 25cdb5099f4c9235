// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/convolution/blocks_params.h"
#include "backends/cuda/convolution/blocks.h"
#include "backends/cuda/convolution/blocks_step.h"

namespace tenon::cuda::stem {
namespace {

using Params = BlocksParams;

/// Threads that share the chunks of a pixel, as the kernel has it.
int64_t groups_of(const Blocks& blocks) { return blocks.channels / 8 <= 4 ? 1 : blocks.channels / 8; }

Source source_of(const Blocks& blocks) {
  Source source{"blocks.cu", {}, ""};
  source.defines = {define_type("ELEMENT", blocks.shape.x_type), define_type("TY", blocks.shape.y_type),
                    define("C", blocks.shape.in_c), define("CH", blocks.channels), define("BLOCK", blocks.block)};
  if (blocks.shape.y_type == DType::bf16) source.defines.push_back("BF16=1");
  return source;
}

Reason refuses(const Problem& problem, const Properties&) {
  ConvShape shape{};
  if (const Reason reason = refuses_blocks(problem, shape)) return reason;
  return refuses_added_zeros(problem);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  Blocks blocks(problem);
  blocks.make_problem(problem);
  return blocks_tactics(blocks.problem, properties, source_of(blocks));
}

class StemStep : public BlocksStep<Params> {
 public:
  StemStep(const Blocks& blocks, Device& device, const std::string& name)
      : BlocksStep(blocks.problem, device, name, blocks.bytes(), source_of(blocks), "blocks") {
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    params_.in_h = number(blocks.shape.in_h), params_.in_w = number(blocks.shape.in_w);
    params_.out_h = number(blocks.height), params_.out_w = number(blocks.width);
    params_.count = number(blocks.shape.batch * blocks.height * blocks.width * groups_of(blocks));
    std::copy(std::begin(blocks.shape.x), std::end(blocks.shape.x), params_.xs);
  }
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Blocks blocks(problem);
  blocks.make_problem(problem);
  return std::make_unique<StemStep>(blocks, device, tactic.name);
}

const KernelRegistrar registered({"Conv", "stem", 4, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::stem

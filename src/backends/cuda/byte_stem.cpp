#include <algorithm>

#include "backends/cuda/byte_blocks.h"

namespace tenon::cuda {
namespace {

/// As kernels/byte_blocks.cu has it.
struct Params {
  Address x, y;
  int64_t xs[4];
  int in_h, in_w, out_h, out_w, count, zero;
  float scale;
};

const std::string prefix = "blocks, ";

Source source_of(const ByteBlocks& blocks) {
  return {"byte_blocks.cu",
          {define_type("ELEMENT", blocks.conv.shape.x_type), define("C", blocks.conv.shape.in_c),
           define("CH", blocks.channels), define("BLOCK", blocks.block)},
          ""};
}

const char* refuses(const Problem& problem, const Properties&) {
  ConvShape shape{};
  return refuses_byte_blocks(problem, shape);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  ByteBlocks blocks(problem);
  blocks.make_problem(problem);
  std::vector<Tactic> list;
  for (const Choice& inner : choices(blocks.problem, properties)) {
    Tactic tactic{prefix + inner.tactic.name, inner.tactic.sources, {}};
    tactic.sources.push_back(source_of(blocks));
    list.push_back(std::move(tactic));
  }
  return list;
}

class ByteStemStep : public Step {
 public:
  ByteStemStep(const Problem& problem, Device& device, const Tactic& tactic) : device_(device) {
    ByteBlocks blocks(problem);
    blocks.make_problem(problem);
    const ConvShape& shape = blocks.conv.shape;
    const Choice inner = choose(blocks.problem, device.properties(), tactic.name.substr(prefix.size()));
    inner_ = inner.kernel->make(blocks.problem, device, inner.tactic);
    function_ = device.function(source_of(blocks), "byte_blocks");
    bytes_ = (blocks.bytes() + 1023) / 1024 * 1024;
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    params_.in_h = number(shape.in_h), params_.in_w = number(shape.in_w);
    params_.out_h = number(blocks.height), params_.out_w = number(blocks.width);
    params_.count = number(shape.batch * blocks.height * blocks.width);
    params_.zero = blocks.conv.x_zero, params_.scale = blocks.conv.x_scale;
    std::copy(std::begin(shape.x), std::end(shape.x), params_.xs);
    grid_ = {ceil_div(params_.count, 256), 1, 1, 256, 0};
  }
  size_t workspace_bytes() const override { return bytes_ + inner_->workspace_bytes(); }
  size_t packed_bytes() const override { return inner_->packed_bytes(); }
  bool reads(size_t input) const override { return input == 0 || inner_->reads(input); }
  void enqueue(const Launch& at) override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.workspace;
    launch(device_, function_, grid_, at.stream, params);
    const Address inputs[] = {at.workspace, 0, 0, 0};
    inner_->enqueue({at.stream, inputs, at.outputs, at.workspace + bytes_});
  }

 private:
  Device& device_;
  Function function_;
  std::unique_ptr<Step> inner_;
  Params params_{};
  Grid grid_;
  size_t bytes_ = 0;
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return std::make_unique<ByteStemStep>(problem, device, tactic);
}

const KernelRegistrar registered({"Int8Conv", "stem", 4, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda

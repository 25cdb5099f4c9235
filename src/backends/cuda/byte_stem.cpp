#include <algorithm>

#include "backends/cuda/byte_blocks.h"

namespace tenon::cuda {
namespace {

/// As kernels/byte_blocks.cu has it.
struct Params {
  Address x, y;
  int64_t xs[4];
  int in_h, in_w, out_h, out_w, pad_top, pad_left, count, zero;
  float scale, inverse;
};

const std::string prefix = "blocks, ";

/// The convolution over padded blocks. All taps of a row lie side by side in memory: they are the channels of one tap,
/// and pixels overlap.
struct Rows {
  ByteBlocks blocks;
  int64_t height, width;  // of the padded blocks
  ir::Node node;
  Problem problem;

  explicit Rows(const Problem& from) : blocks(from) {
    const ConvShape& shape = blocks.conv.shape;
    height = shape.out_h + blocks.taps_h - 1, width = shape.out_w + blocks.taps_w - 1;
    const int64_t depth = blocks.taps_w * blocks.channels;
    node = *from.node;
    for (const char* gone : {"input_layout", "auto_pad", "dilations", "pads", "kernel_shape"})
      node.attributes.erase(gone);
    node.attributes["strides"] = std::vector<int64_t>{1, 1};
    problem.node = &node;
    problem.inputs = from.inputs;
    problem.outputs = from.outputs;
    Operand& x = problem.inputs[0];
    x.dtype = DType::u8;
    x.dims = {shape.batch, height, shape.out_w, depth};
    x.strides = {height * width * blocks.channels, width * blocks.channels, blocks.channels, 1};
    x.aligned = true;
    Operand& w = problem.inputs[1];
    w.dims = {shape.out_c, depth, blocks.taps_h, 1};
    w.strides = backends::dense_strides(w.dims);
    w.constant = Tensor(DType::i8, w.dims);
    const std::vector<int8_t> weights = blocks.weights(from);
    int8_t* to = w.constant.data<int8_t>();
    for (int64_t n = 0; n < shape.out_c; ++n)
      for (int64_t row = 0; row < blocks.taps_h; ++row)
        for (int64_t k = 0; k < depth; ++k)
          to[(n * depth + k) * blocks.taps_h + row] = weights[(n * blocks.taps_h + row) * depth + k];
  }
  Rows(const Rows&) = delete;
  int64_t pixels() const { return blocks.conv.shape.batch * height * width; }
  size_t bytes() const { return static_cast<size_t>(pixels() * blocks.channels); }
  Source source() const {
    return {"byte_blocks.cu",
            {define_type("ELEMENT", blocks.conv.shape.x_type), define("C", blocks.conv.shape.in_c),
             define("CH", blocks.channels), define("BLOCK", blocks.block)},
            ""};
  }
};

const char* refuses(const Problem& problem, const Properties&) {
  ConvShape shape{};
  return refuses_byte_blocks(problem, shape);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  const Rows rows(problem);
  std::vector<Tactic> list;
  for (const Choice& inner : choices(rows.problem, properties)) {
    Tactic tactic{prefix + inner.tactic.name, inner.tactic.sources, {}};
    tactic.sources.push_back(rows.source());
    list.push_back(std::move(tactic));
  }
  return list;
}

class ByteStemStep : public Step {
 public:
  ByteStemStep(const Problem& problem, Device& device, const Tactic& tactic) : device_(device) {
    const Rows rows(problem);
    const ByteBlocks& blocks = rows.blocks;
    const ConvShape& shape = blocks.conv.shape;
    const Choice inner = choose(rows.problem, device.properties(), tactic.name.substr(prefix.size()));
    inner_ = inner.kernel->make(rows.problem, device, inner.tactic);
    function_ = device.function(rows.source(), "byte_blocks");
    bytes_ = (rows.bytes() + 1023) / 1024 * 1024;
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    params_.in_h = number(shape.in_h), params_.in_w = number(shape.in_w);
    params_.out_h = number(rows.height), params_.out_w = number(rows.width);
    params_.pad_top = number(blocks.pad_top), params_.pad_left = number(blocks.pad_left);
    params_.count = number(rows.pixels());
    params_.zero = blocks.conv.x_zero, params_.scale = blocks.conv.x_scale;
    params_.inverse = 1.f / blocks.conv.x_scale;
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

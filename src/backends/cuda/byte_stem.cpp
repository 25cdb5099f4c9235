#include <algorithm>

#include "backends/cuda/byte_conv.h"

namespace tenon::cuda {
namespace {

/// As kernels/byte_blocks.cu has it.
struct Params {
  Address x, y;
  int64_t xs[4];
  int in_h, in_w, out_h, out_w, count, zero;
  float scale;
};

constexpr int64_t most_channels = 256;
const std::string prefix = "blocks, ";

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/// A convolution of few channels with stride B as one of stride 1 over blocks of B x B pixels, all of bytes: tap i of the
/// kernel lies in block floor((i - pad) / B).
struct Blocks {
  ByteConv conv;
  int64_t block, channels, height, width;  // of the block tensor
  int64_t pad_top, pad_left, taps_h, taps_w;
  ir::Node node;
  Problem problem;

  explicit Blocks(const Problem& from) {
    byte_conv(from, conv);
    const ConvShape& shape = conv.shape;
    block = shape.stride_h;
    channels = ceil_div(shape.in_c * block * block, 16) * 16;
    height = ceil_div(shape.in_h, block), width = ceil_div(shape.in_w, block);
    pad_top = -floor_div(-shape.pad_top, block), pad_left = -floor_div(-shape.pad_left, block);
    taps_h = floor_div(shape.kernel_h - 1 - shape.pad_top, block) + pad_top + 1;
    taps_w = floor_div(shape.kernel_w - 1 - shape.pad_left, block) + pad_left + 1;
  }

  /// The inner problem; its node lives here.
  void make_problem(const Problem& from) {
    const ConvShape& shape = conv.shape;
    node = *from.node;
    for (const char* gone : {"input_layout", "auto_pad", "dilations"}) node.attributes.erase(gone);
    node.attributes["strides"] = std::vector<int64_t>{1, 1};
    node.attributes["pads"] = std::vector<int64_t>{pad_top, pad_left, 0, 0};
    problem.node = &node;
    problem.inputs = from.inputs;
    problem.outputs = from.outputs;
    Operand& x = problem.inputs[0];
    x.dtype = DType::u8;
    x.dims = {shape.batch, height, width, channels};
    x.strides = backends::dense_strides(x.dims);
    x.aligned = true;
    Operand& w = problem.inputs[1];
    w.dims = {shape.out_c, channels, taps_h, taps_w};
    w.strides = backends::dense_strides(w.dims);
    w.constant = Tensor(DType::i8, w.dims);
    const std::vector<int8_t> weights = byte_weights(from, shape);
    int8_t* to = w.constant.data<int8_t>();
    std::fill(to, to + w.constant.elements(), int8_t{0});
    for (int64_t n = 0; n < shape.out_c; ++n)
      for (int64_t i = 0; i < shape.kernel_h; ++i)
        for (int64_t j = 0; j < shape.kernel_w; ++j) {
          const int64_t tap_h = floor_div(i - shape.pad_top, block) + pad_top;
          const int64_t tap_w = floor_div(j - shape.pad_left, block) + pad_left;
          const int64_t row = i - shape.pad_top - (tap_h - pad_top) * block;
          const int64_t column = j - shape.pad_left - (tap_w - pad_left) * block;
          for (int64_t c = 0; c < shape.in_c; ++c)
            to[((n * channels + (row * block + column) * shape.in_c + c) * taps_h + tap_h) * taps_w + tap_w] =
                weights[((n * shape.kernel_h + i) * shape.kernel_w + j) * shape.in_c + c];
        }
  }
  size_t bytes() const { return static_cast<size_t>(conv.shape.batch * height * width * channels); }
  Source source() const {
    return {"byte_blocks.cu",
            {define_type("ELEMENT", conv.shape.x_type), define("C", conv.shape.in_c), define("CH", channels),
             define("BLOCK", block)},
            ""};
  }
};

const char* refuses(const Problem& problem, const Properties&) {
  ConvShape shape{};
  if (const char* reason = byte_shape(problem, shape)) return reason;
  if (shape.groups != 1 || shape.dilation_h != 1 || shape.dilation_w != 1) return "only one group without dilation";
  if (shape.stride_h != shape.stride_w) return "strides differ";
  if (shape.in_c >= 8) return "many channels";
  if (problem.inputs.size() > 3 && problem.inputs[3]) return "it has a residual";
  if (shape.in_c * shape.stride_h * shape.stride_h > most_channels) return "large blocks";
  return Blocks(problem).bytes() / 16 >= size_t{1} << 31 ? "too large" : nullptr;
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  Blocks blocks(problem);
  blocks.make_problem(problem);
  std::vector<Tactic> list;
  for (const Choice& inner : choices(blocks.problem, properties)) {
    Tactic tactic{prefix + inner.tactic.name, inner.tactic.sources, {}};
    tactic.sources.push_back(blocks.source());
    list.push_back(std::move(tactic));
  }
  return list;
}

class ByteStemStep : public Step {
 public:
  ByteStemStep(const Problem& problem, Device& device, const Tactic& tactic) : device_(device) {
    Blocks blocks(problem);
    blocks.make_problem(problem);
    const ConvShape& shape = blocks.conv.shape;
    const Choice inner = choose(blocks.problem, device.properties(), tactic.name.substr(prefix.size()));
    inner_ = inner.kernel->make(blocks.problem, device, inner.tactic);
    function_ = device.function(blocks.source(), "byte_blocks");
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

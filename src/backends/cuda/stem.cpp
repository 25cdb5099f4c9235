#include <algorithm>

#include "backends/cuda/convolution.h"

namespace tenon::cuda {
namespace {

/// As kernels/blocks.cu has it.
struct Params {
  Address x, y;
  int64_t xs[4];
  int in_h, in_w, out_h, out_w, count;
};

constexpr int most_channels = 1024;
const std::string prefix = "blocks, ";

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/// A convolution of few channels with stride B as one of stride 1 over blocks of B x B pixels: tap i of the kernel lies
/// in block floor((i - pad) / B).
struct Blocks {
  ConvShape shape{};
  int64_t block, channels, height, width;  // of the block tensor
  int64_t pad_top, pad_left, taps_h, taps_w;
  ir::Node node;
  Problem problem;

  explicit Blocks(const Problem& from) {
    conv_shape(from, shape);
    block = shape.stride_h;
    channels = ceil_div(shape.in_c * block * block, 16) * 16;
    height = ceil_div(shape.in_h, block), width = ceil_div(shape.in_w, block);
    pad_top = -floor_div(-shape.pad_top, block), pad_left = -floor_div(-shape.pad_left, block);
    taps_h = floor_div(shape.kernel_h - 1 - shape.pad_top, block) + pad_top + 1;
    taps_w = floor_div(shape.kernel_w - 1 - shape.pad_left, block) + pad_left + 1;
  }

  /// The inner problem; its node lives here.
  void make_problem(const Problem& from) {
    node = *from.node;
    node.op = "Conv";
    for (const char* gone : {"input_layout", "auto_pad", "dilations", "output_dtype"}) node.attributes.erase(gone);
    node.attributes["strides"] = std::vector<int64_t>{1, 1};
    node.attributes["pads"] = std::vector<int64_t>{pad_top, pad_left, 0, 0};
    node.attributes["group"] = int64_t{1};
    problem.node = &node;
    problem.inputs = from.inputs;
    problem.outputs = from.outputs;
    Operand& x = problem.inputs[0];
    x.dtype = DType::f16;
    x.dims = {shape.batch, height, width, channels};
    x.strides = backends::dense_strides(x.dims);
    x.aligned = true;
    Operand& w = problem.inputs[1];
    w.dims = {shape.out_c, channels, taps_h, taps_w};
    w.strides = backends::dense_strides(w.dims);
    w.constant = Tensor(DType::f32, w.dims);
    const std::vector<float> weights = conv_weights(from, shape);
    float* to = w.constant.data<float>();
    for (int64_t n = 0; n < shape.out_c; ++n)
      for (int64_t i = 0; i < shape.kernel_h; ++i)
        for (int64_t j = 0; j < shape.kernel_w; ++j) {
          const int64_t tap_h = floor_div(i - shape.pad_top, block) + pad_top,
                        row = i - shape.pad_top - (tap_h - pad_top) * block;
          const int64_t tap_w = floor_div(j - shape.pad_left, block) + pad_left,
                        column = j - shape.pad_left - (tap_w - pad_left) * block;
          for (int64_t c = 0; c < shape.in_c; ++c)
            to[((n * channels + (row * block + column) * shape.in_c + c) * taps_h + tap_h) * taps_w + tap_w] =
                weights[((n * shape.kernel_h + i) * shape.kernel_w + j) * shape.in_c + c];
        }
  }
  /// Threads that share the chunks of a pixel, as the kernel has it.
  int64_t groups() const { return channels / 8 <= 4 ? 1 : channels / 8; }
  size_t bytes() const { return static_cast<size_t>(shape.batch * height * width * channels) * 2; }
  Source source() const {
    Source source{"blocks.cu", {}, ""};
    source.defines = {define_type("ELEMENT", shape.x_type), define("C", shape.in_c), define("CH", channels),
                      define("BLOCK", block)};
    return source;
  }
};

const char* refuses(const Problem& problem, const Properties&) {
  ConvShape shape{};
  if (problem.node->op != "Conv") return "no convolution";
  if (const char* reason = conv_shape(problem, shape)) return reason;
  if (shape.y_type != DType::f16) return "only f16 results";
  if (problem.node->text("layout", "") != "NHWC") return "only channels-last results";
  if (shape.groups != 1 || shape.dilation_h != 1 || shape.dilation_w != 1) return "only one group without dilation";
  if (shape.stride_h != shape.stride_w) return "strides differ";
  if (shape.in_c >= 8) return "many channels";
  if (problem.inputs.size() > 3 && problem.inputs[3]) return "it has a residual";
  if (shape.in_c * shape.stride_h * shape.stride_h > most_channels) return "large blocks";
  const Blocks blocks(problem);
  return blocks.bytes() / 16 >= size_t{1} << 31 ? "too large" : nullptr;
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

class StemStep : public Step {
 public:
  StemStep(const Problem& problem, Device& device, const Tactic& tactic) : device_(device) {
    Blocks blocks(problem);
    blocks.make_problem(problem);
    const Choice inner = choose(blocks.problem, device.properties(), tactic.name.substr(prefix.size()));
    inner_ = inner.kernel->make(blocks.problem, device, inner.tactic);
    function_ = device.function(blocks.source(), "blocks");
    bytes_ = (blocks.bytes() + 1023) / 1024 * 1024;
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    params_.in_h = number(blocks.shape.in_h), params_.in_w = number(blocks.shape.in_w);
    params_.out_h = number(blocks.height), params_.out_w = number(blocks.width);
    params_.count = number(blocks.shape.batch * blocks.height * blocks.width * blocks.groups());
    std::copy(std::begin(blocks.shape.x), std::end(blocks.shape.x), params_.xs);
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
  return std::make_unique<StemStep>(problem, device, tactic);
}

const KernelRegistrar registered({"Conv", "stem", 4, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda

// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "backends/cuda/elementwise/map.h"

/// Depthwise convolutions that make several channels of each: a copy of the image with every channel as often, then one
/// that makes one of each.
namespace tenon::cuda::depthwise_repeated {
namespace {

const std::string prefix = "repeated ";
constexpr int64_t most_repeats = 64;
constexpr size_t most_operands = 4;

int64_t repeats_of(const Problem& problem) { return problem.inputs[1].dims[0] / problem.inputs[0].dims.back(); }

/// The convolution of the copy, whose node must outlive it.
struct Repeated {
  ir::Node node;
  Problem problem;

  explicit Repeated(const Problem& from) : node(*from.node), problem(from) {
    node.attributes["group"] = from.inputs[1].dims[0];
    problem.node = &node;
    Operand& x = problem.inputs[0];
    x.dims[x.dims.rank() - 1] *= repeats_of(from);
    x.strides = backends::dense_strides(x.dims);
    x.aligned = true;
  }
  Repeated(const Repeated&) = delete;
};

Map copy_of(const Problem& problem) {
  const Operand& x = problem.inputs[0];
  const int64_t repeats = repeats_of(problem);
  Dims dims = x.dims, from = x.strides;
  dims.push_back(repeats), from.push_back(0);
  Map map = copy_map(dims, from, backends::dense_strides(dims), static_cast<int>(size_of(x.dtype)));
  map.aligned = {x.aligned, true};
  map.simplify();
  return map;
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &weights = problem.inputs[1];
  const ir::Node& node = *problem.node;
  const int64_t group = node.integer("group", 1);
  if (node.text("layout", "") != "NHWC" || x.dims.rank() != 4 || !node.text("input_layout", "").empty())
    return {Reason::layout, "channels last"};
  if (group < 2 || x.dims[3] != group || weights.dims[1] != 1) return Reason::not_depthwise;
  if (!is_real(x.dtype)) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  const int64_t repeats = weights.dims[0] / group;
  if (repeats < 2 || repeats > most_repeats) return {Reason::group, "2 to 64 outputs"};
  if (problem.inputs.size() > most_operands) return {Reason::too_many, most_operands, "operands"};
  return x.dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  const Repeated repeated(problem);
  std::vector<Tactic> list;
  for (const Choice& inner : choices(repeated.problem, properties)) {
    Tactic tactic{prefix + inner.tactic.name, inner.tactic.sources, {}};
    tactic.sources.push_back(copy_of(problem).source());
    list.push_back(std::move(tactic));
  }
  return list;
}

class RepeatedStep : public Step {
 public:
  RepeatedStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), repeated_(problem), copy_(copy_of(problem), device), inputs_(problem.inputs.size()) {
    const Choice inner = choose(repeated_.problem, device.properties(), tactic.name.substr(prefix.size()));
    inner_ = inner.kernel->make(repeated_.problem, device, inner.tactic);
    place_ = (inner_->workspace_bytes() + 255) / 256 * 256;
    const Operand& x = repeated_.problem.inputs[0];
    bytes_ = place_ + static_cast<size_t>(x.dims.elements()) * size_of(x.dtype);
  }
  size_t workspace_bytes() const override { return bytes_; }
  bool reads(size_t input) const override { return inner_->reads(input); }
  bool leaves_breadcrumbs() const override { return inner_->leaves_breadcrumbs(); }
  void enqueue(const Launch& at) const override {
    std::array<Address, most_operands> inputs{};
    std::copy_n(at.inputs, inputs_, inputs.begin());
    inputs[0] = at.workspace + place_;
    copy_.enqueue(device_, at, {at.inputs[0], inputs[0]});
    Launch inner = at;
    inner.inputs = inputs.data();
    inner_->enqueue(inner);
  }

 private:
  Device& device_;
  Repeated repeated_;
  MapLaunch copy_;
  size_t inputs_, place_ = 0, bytes_ = 0;
  std::unique_ptr<Step> inner_;
};

const KernelRegistrar registered({"Conv", "repeated", 1, refuses, tactics, make_step<RepeatedStep>});

}  // namespace
}  // namespace tenon::cuda::depthwise_repeated

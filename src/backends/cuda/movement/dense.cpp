// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "backends/cuda/elementwise/map.h"

/// Kernels that take no views, with copies of the operands that are some.
namespace tenon::cuda::dense {
namespace {

const std::string prefix = "dense ";
constexpr size_t most_operands = 32;

bool is_view(const Operand& operand) { return operand && !operand.constant && !operand.dense(); }

/// The problem with dense operands in the place of views.
Problem dense_problem(const Problem& problem) {
  Problem dense = problem;
  for (auto* operands : {&dense.inputs, &dense.outputs})
    for (Operand& operand : *operands)
      if (is_view(operand)) operand.strides = backends::dense_strides(operand.dims), operand.aligned = true;
  return dense;
}

/// False where elements are of no size that is copied, or lie along too many axes.
bool find_copy(const Operand& from, const Operand& to, Map& map) {
  const size_t size = size_of(from.dtype);
  if (size != 1 && size != 2 && size != 4 && size != 8) return false;
  map = copy_map(from.dims, from.strides, to.strides, static_cast<int>(size));
  map.aligned = {from.aligned, to.aligned};
  return map.simplify();
}

/// A map for each view: into its dense copy for an input, out of it for an output.
struct Copies {
  std::vector<std::pair<size_t, Map>> inputs, outputs;
  bool possible = true;

  Copies(const Problem& problem, const Problem& dense) {
    Map map;
    for (size_t at = 0; at < problem.inputs.size(); ++at) {
      if (!is_view(problem.inputs[at])) continue;
      possible &= find_copy(problem.inputs[at], dense.inputs[at], map);
      inputs.emplace_back(at, map);
    }
    for (size_t at = 0; at < problem.outputs.size(); ++at) {
      if (!is_view(problem.outputs[at])) continue;
      possible &= find_copy(dense.outputs[at], problem.outputs[at], map);
      outputs.emplace_back(at, map);
    }
  }
  bool any() const { return !inputs.empty() || !outputs.empty(); }
};

Reason refuses(const Problem& problem, const Properties&) {
  if (problem.inputs.size() > most_operands || problem.outputs.size() > most_operands)
    return {Reason::too_many, most_operands, "operands"};
  const Copies copies(problem, dense_problem(problem));
  if (!copies.any()) return {Reason::view, "no operand"};
  return copies.possible ? Reason() : Reason(Reason::too_many, most_map_axes, "axes");
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  const Problem dense = dense_problem(problem);
  const Copies copies(problem, dense);
  std::vector<Tactic> list;
  for (const Choice& inner : choices(dense, properties)) {
    Tactic tactic{prefix + inner.tactic.name, inner.tactic.sources, {}};
    for (const auto* maps : {&copies.inputs, &copies.outputs})
      for (const auto& [at, map] : *maps) tactic.sources.push_back(map.source());
    list.push_back(std::move(tactic));
  }
  return list;
}

class DenseStep : public Step {
 public:
  DenseStep(const Problem& problem, Device& device, const Tactic& tactic) : device_(device) {
    const Problem dense = dense_problem(problem);
    const Choice inner = choose(dense, device.properties(), tactic.name.substr(prefix.size()));
    inner_ = inner.kernel->make(dense, device, inner.tactic);
    bytes_ = aligned(inner_->workspace_bytes());
    const Copies copies(problem, dense);
    const auto add = [&](const auto& maps, const std::vector<Operand>& operands, std::vector<Copy>& list) {
      for (const auto& [at, map] : maps) {
        list.push_back({at, bytes_, MapLaunch(map, device)});
        bytes_ += aligned(static_cast<size_t>(operands[at].dims.elements()) * size_of(operands[at].dtype));
      }
    };
    add(copies.inputs, problem.inputs, inputs_), add(copies.outputs, problem.outputs, outputs_);
    input_count_ = problem.inputs.size(), output_count_ = problem.outputs.size();
  }
  size_t workspace_bytes() const override { return bytes_; }
  bool reads(size_t input) const override { return inner_->reads(input); }
  bool leaves_breadcrumbs() const override { return inner_->leaves_breadcrumbs(); }
  void enqueue(const Launch& at) const override {
    std::array<Address, most_operands> inputs, outputs;
    std::copy_n(at.inputs, input_count_, inputs.begin());
    std::copy_n(at.outputs, output_count_, outputs.begin());
    for (const Copy& copy : inputs_) {
      inputs[copy.operand] = at.workspace + copy.place;
      copy.launch.enqueue(device_, at, {at.inputs[copy.operand], inputs[copy.operand]});
    }
    for (const Copy& copy : outputs_) outputs[copy.operand] = at.workspace + copy.place;
    Launch dense = at;
    dense.inputs = inputs.data(), dense.outputs = outputs.data();
    inner_->enqueue(dense);
    for (const Copy& copy : outputs_)
      copy.launch.enqueue(device_, at, {outputs[copy.operand], at.outputs[copy.operand]});
  }

 private:
  /// Of an operand, to or from its place in the workspace.
  struct Copy {
    size_t operand, place;
    MapLaunch launch;
  };
  static size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

  Device& device_;
  std::unique_ptr<Step> inner_;
  std::vector<Copy> inputs_, outputs_;
  size_t bytes_ = 0, input_count_ = 0, output_count_ = 0;
};

const KernelRegistrar registered({any_view, "dense", 0, refuses, tactics, make_step<DenseStep>});

}  // namespace
}  // namespace tenon::cuda::dense

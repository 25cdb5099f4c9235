// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/runtime/kernel.h"

namespace tenon::cuda {

/// Tactics of a step over blocks are those of the convolution behind them, with this before their names.
inline const std::string blocks_prefix = "blocks, ";

/// An image is gathered into blocks in the workspace, and a convolution runs over those. `Params` are those of the
/// kernel that gathers: x is the image, y the blocks.
template <class Params>
class BlocksStep : public Step {
 public:
  size_t workspace_bytes() const override { return bytes_ + inner_->workspace_bytes(); }
  bool reads(size_t input) const override { return input == 0 || inner_->reads(input); }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.workspace;
    launch(device_, function_, {ceil_div(params_.count, 256), 1, 1, 256, 0}, at, params);
    const Address inputs[] = {at.workspace, 0, 0, 0};
    inner_->enqueue({at.stream, inputs, at.outputs, at.workspace + bytes_, at.breadcrumb});
  }

 protected:
  /// `problem` is the convolution over `bytes` of blocks, `name` that of the tactic with its prefix.
  BlocksStep(const Problem& problem, Device& device, const std::string& name, size_t bytes, const Source& source,
             const char* function)
      : device_(device), function_(device.function(source, function)), bytes_((bytes + 1023) / 1024 * 1024) {
    const Choice inner = choose(problem, device.properties(), name.substr(blocks_prefix.size()));
    inner_ = inner.kernel->make(problem, device, inner.tactic);
  }

  Params params_{};

 private:
  Device& device_;
  Function function_;
  size_t bytes_;
  std::unique_ptr<Step> inner_;
};

/// The tactics of the convolution over blocks, which `source` gathers.
inline std::vector<Tactic> blocks_tactics(const Problem& problem, const Properties& properties, const Source& source) {
  std::vector<Tactic> list;
  for (const Choice& inner : choices(problem, properties)) {
    Tactic tactic{blocks_prefix + inner.tactic.name, inner.tactic.sources, {}};
    tactic.sources.push_back(source);
    list.push_back(std::move(tactic));
  }
  return list;
}

}  // namespace tenon::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "plan/layout.h"

namespace tenon::plan {

/// Whether sizes of all values are those that inference would give, and let every node be. The commonest ops are
/// checked by plain arithmetic, others by inference of the node alone.
class Agreement {
 public:
  explicit Agreement(const ir::Graph& graph);
  bool holds(const std::vector<Dims>& sizes, const Decided& decided) const;

 private:
  enum class Kind : uint8_t { elementwise, view, windows, global, product, normal, concat, split, transpose, inferred };
  /// A convolution of images: by spatial axis, and of its weights. Channels of a pool are 0: it keeps them.
  struct Window {
    int64_t kernel[2], stride[2], dilation[2], pads[2], in_channels, out_channels;
    bool same, in_nchw;  // padded for whole strides; its input has channels before rows
    ir::ValueId residual;
  };
  struct Check {
    ir::NodeId node;
    Kind kind = Kind::inferred;
    std::vector<Window> windows = {};      // one reading the result of the one before
    size_t axis = 0;                       // of a concatenation or a split; of a pool's channels
    std::vector<int64_t> perm = {};        // of a transposition
    std::vector<int64_t> parts = {};       // of a split
    mutable ir::Graph alone = {};          // of an inferred one, with the sizes that were asked about last
    std::vector<ir::ValueId> inputs = {};  // of the node in that
  };
  Check check_of(ir::NodeId id, const std::vector<Dims>& known) const;
  std::vector<Window> windows_of(const ir::Node& node) const;
  size_t axis_of(const ir::Node& node, int64_t otherwise) const;
  bool holds(const Check& check, const std::vector<Dims>& sizes) const;
  bool windows_hold(const Check& check, const std::vector<Dims>& sizes) const;
  bool infers(const Check& check, const std::vector<Dims>& sizes, const Decided& decided) const;

  const ir::Graph& graph_;
  std::vector<Check> checks_;
  mutable std::mutex mutex_;  // of what is inferred
};

}  // namespace tenon::plan

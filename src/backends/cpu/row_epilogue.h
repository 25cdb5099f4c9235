// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/rows.h"

namespace tenon::cpu {

/// The epilogue of a node whose kernel finishes rows of sums in memory.
class RowEpilogue {
 public:
  explicit RowEpilogue(const ir::Node& node) : epilogue_(epilogue_of(node)) {
    if (epilogue_.slopes) slopes_ = node.reals("slopes");
    epilogue_.slopes = nullptr;
  }
  bool adds() const { return epilogue_.residual != Residual::none; }
  /// For kernels that are made while the node is there.
  Epilogue epilogue() const {
    Epilogue whole = epilogue_;
    if (!slopes_.empty()) whole.slopes = slopes_.data();
    return whole;
  }
  /// Finishes `count` values, of as many channels from `channel` on.
  void channels(const RowOps& ops, float* row, const float* residual, int64_t channel, int64_t count) const {
    finish(ops, row, residual, channel, 1, count);
  }
  /// Finishes `count` values of one channel.
  void values(const RowOps& ops, float* row, const float* residual, int64_t channel, int64_t count) const {
    finish(ops, row, residual, channel, 0, count);
  }

 private:
  void finish(const RowOps& ops, float* row, const float* residual, int64_t channel, int step, int64_t count) const {
    const Epilogue& e = epilogue_;
    if (e.residual == Residual::before) ops.binary(expr::Id::Add, row, row, 1, residual, 1, count);
    if (!slopes_.empty()) ops.binary(e.act, row, row, 1, slopes_.data() + channel, step, count);
    else if (e.act != expr::Id::Identity) ops.unary(e.act, e.alpha, e.beta, row, row, count);
    if (e.residual == Residual::after) ops.binary(expr::Id::Add, row, row, 1, residual, 1, count);
  }

  Epilogue epilogue_;
  std::vector<float> slopes_;
};

}  // namespace tenon::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <memory>
#include <string>
#include <vector>

#include "quant/audit.h"

namespace tenon::cli {

/// Whether images become the input as the model was trained: the tests of the calibration's audit, on the first images
/// of a run. Of scale one image tells, of the order of red and blue six or more.
class Doubts {
 public:
  /// For a model of one image input of these sizes.
  Doubts(const Engine& engine, const Shapes& shapes);
  /// Whether more images would tell more.
  bool wants_more() const { return auditor_ && seen_ < most_images; }
  /// After the session has run on `input`, whose first images have these names; runs it twice more, after which
  /// `outputs`, the session's own, hold what they held.
  void note(const std::vector<std::string>& names, const Tensor& input, const std::vector<Tensor>& outputs,
            Session& session);
  /// One line for what looks wrong; none where nothing does.
  std::vector<std::string> found() const;

 private:
  static constexpr int most_images = 12;
  ir::Graph graph_;
  std::unique_ptr<quant::Auditor> auditor_;
  int seen_ = 0;
};

}  // namespace tenon::cli

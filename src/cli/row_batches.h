// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <map>
#include <string>
#include <vector>

namespace tenon::cli {

/// Inputs whose first axis counts rows, `batch` of which run together.
class RowBatches {
 public:
  /// Throws Error(usage) where the inputs have no rows, or not the same number of them.
  RowBatches(const std::map<std::string, Tensor>& inputs, int64_t batch);
  /// Sizes of the inputs of one run.
  Shapes shapes() const;
  /// Runs all of them and joins the outputs. What is left of the last batch repeats its first row. Throws
  /// Error(unsupported) for an output whose first axis does not count rows.
  std::vector<Tensor> run(Session& session, const std::vector<TensorInfo>& outputs) const;

 private:
  Tensor piece(const Tensor& input, int64_t first) const;
  const std::map<std::string, Tensor>& inputs_;
  int64_t batch_, rows_ = -1;
};

}  // namespace tenon::cli

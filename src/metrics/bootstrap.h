// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tenon::metrics {

/// A share over images: the sum of parts over the sum of wholes.
class Share {
 public:
  /// The next image.
  void add(double part, double whole);
  int64_t images() const { return static_cast<int64_t>(parts_.size()); }
  /// With image p counted weights[p] times; each once where there are no weights. 0 where all wholes are 0.
  double value(std::span<const uint32_t> weights = {}) const;

 private:
  std::vector<double> parts_, wholes_;
};

struct Interval {
  double low = 0, high = 0;
};

/// Where 95 % of `figure` lie when as many images as there are get drawn from them again, with replacement (Efron's
/// percentile interval). A figure that is a difference of two engines on the same images makes the interval a paired
/// one. `figure` gets how often each image is drawn. The draws are the same in every run.
Interval bootstrap(int64_t images, const std::function<double(std::span<const uint32_t>)>& figure);

}  // namespace tenon::metrics

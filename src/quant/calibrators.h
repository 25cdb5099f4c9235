// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/calibration.h>

#include "quant/histogram.h"
#include "quant/recipe.h"

namespace tenon::quant {

/// The range of a tensor by each method, from its histogram. Thresholds T are over |x|, and give the range
/// [max(least, -T), min(greatest, T)]. `automatic` is no range by itself; asking for it is a fault of ours.
Range range_of(const Histogram& histogram, CalibrationMethod method, double percentile);

/// Least bin edge T with at least `percentile` percent of all |x| below it.
double percentile_threshold(const Histogram& histogram, double percentile);
/// TensorRT's entropy calibration, second kind, as presented at GTC 2017 (S7310): with the zeros left out of bin 0, for
/// each i >= 128 the reference P is bins 0..i with the tail folded onto its last bin, the candidate Q the same bins
/// without the tail merged into 128 levels and spread over the bins that hold anything; T is (m + 0.5) bin widths for
/// the m of least KL(P || Q), the first of equals.
double entropy_threshold(const Histogram& histogram);
/// The same with the zeros in bin 0, where they hold narrow ranges back after a ReLU.
double entropy_legacy_threshold(const Histogram& histogram);
/// The range whose 256 levels have the least mean squared error on the histogram: by turns the lower and the upper end
/// are moved over 100 steps until neither moves.
Range mse_range(const Histogram& histogram);
/// That error: of each bin, its centre against the centre as stored.
double squared_error(const Histogram& histogram, const Quantiser& quantiser);

}  // namespace tenon::quant

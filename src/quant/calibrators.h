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
/// The entropy calibration of Migacz, 8-bit Inference with TensorRT, GTC 2017 (S7310), on the grid that is stored: for
/// each T the reference P is the bins within it with the tails folded onto the last ones, the candidate Q the same bins
/// without the tails merged into the 256 levels of the range that T gives, and spread over the bins that hold anything;
/// T is (m + 0.5) bin widths for the m of least KL(P || Q), the first of equals. The 128 levels of |x| published are
/// those of ranges from -T to T: where a range has one side they would be half as fine as what is stored, and mix the
/// small values of both signs, so that T is far too narrow. 512 to 1024 bins lie within the largest |x|, m is 256 at
/// least, and exact zeros are left out.
double entropy_threshold(const Histogram& histogram);
/// The same with the zeros in bin 0, where they hold narrow ranges back after a ReLU.
double entropy_legacy_threshold(const Histogram& histogram);
/// The range whose 256 levels have the least mean squared error on the histogram: by turns the lower and the upper end
/// are moved over 100 steps until neither moves.
Range mse_range(const Histogram& histogram);
/// That error: of each bin, its centre against the centre as stored.
double squared_error(const Histogram& histogram, const Quantiser& quantiser);

}  // namespace tenon::quant

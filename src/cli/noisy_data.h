// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/calibration.h>

#include <memory>
#include <span>

namespace tenon::cli {

/// What the last bit of numbers is worth: steps of one size, as those of 8 or 16 bits times a scale, or a share of each
/// number, as in fp16; 0 and 0 where they are too few different ones to tell.
struct LastBit {
  double step = 0, share = 0;
};
LastBit last_bit(std::span<const float> values);

/// The same samples with noise of one last bit up or down, channel by channel of images; others than floats stay. The
/// noise is the same in every run.
std::shared_ptr<Calibrator> noisy_data(std::shared_ptr<Calibrator> data);

}  // namespace tenon::cli

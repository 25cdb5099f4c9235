// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/calibration.h>

#include <memory>

namespace tenon::cli {

/// Whether a tensor holds images: [N,C,H,W] or [N,H,W,C] of one to four channels, f32.
bool holds_images(const Tensor& tensor);

/// The same samples with their images moved by a part of the height `down` and of the width `right`, rounded to whole
/// pixels; the border goes on outwards.
std::shared_ptr<Calibrator> moved_data(std::shared_ptr<Calibrator> data, double down, double right);

}  // namespace tenon::cli

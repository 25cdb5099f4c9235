// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/calibration.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "vision/spec.h"

namespace tenon::vision {

/// Images, folders of images (by name, not below them) and videos as calibration data, one image a batch,
/// prepared as for inference. `spec` is resolved. With `count` > 0 that many are taken, spread evenly over all;
/// without, all images and up to 256 frames spread over each video.
/// An image that cannot be read is told to `warn` and passed over; when more than one in twenty are, next_batch throws
/// Error(io). Throws Error(io) where a path does not exist or has no images. `jpeg` > 0: each is saved as a JPEG of
/// that quality and read again before it is prepared.
std::unique_ptr<Calibrator> image_samples(const std::vector<std::string>& paths, const Spec& spec, int64_t count,
                                            std::function<void(const std::string&)> warn, int jpeg = 0);

}  // namespace tenon::vision

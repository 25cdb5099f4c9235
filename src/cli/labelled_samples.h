// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/calibration.h>

#include <memory>
#include <vector>

#include "cli/labelled.h"
#include "vision/preprocess.h"

namespace tenon::cli {

/// Labelled images in their order, one a batch. `transforms`, emptied first, gets how each lies in the input. All must
/// outlive it.
std::shared_ptr<Calibrator> labelled_samples(const Labels& labels, const vision::Spec& spec,
                                             std::vector<vision::Transform>& transforms);

}  // namespace tenon::cli

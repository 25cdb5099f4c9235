// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nanobind/ndarray.h>

#include "session.h"
#include "vision/image.h"

/// Images as arrays of Python, height x width x 3.
namespace tenon::python {

using Pixels = nb::ndarray<const uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

/// Throws Error(usage) where the last axis has not three elements.
vision::Image image_of(const Pixels& pixels);
nb::object array_of(vision::Image&& image);

}  // namespace tenon::python

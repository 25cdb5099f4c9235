// SPDX-License-Identifier: Apache-2.0
// What int8.cpp collects of the other integer kernels.
#pragma once

#include "backends/cpu/kernels/int8/conv_int8.h"
#include "backends/cpu/kernels/int8/int8.h"

namespace tenon::cpu {

const Int8Ops& int8_ops(Isa isa);
Reason refuses_bytes(const Int8Conv& conv);
Reason refuses_depthwise(const Int8Conv& conv);
std::unique_ptr<Int8Kernel> make_depthwise(const Int8Conv& conv, Isa isa, int threads);

Reason refuses_columns(const Int8Conv& conv);
std::unique_ptr<Int8Kernel> make_columns(const Int8Conv& conv, Isa isa, int threads);

Reason refuses_quads(const Int8Conv& conv);
std::unique_ptr<Int8Kernel> make_quads(const Int8Conv& conv, Isa isa, int threads);

Reason refuses_winograd8(const Int8Conv& conv);
std::unique_ptr<Int8Kernel> make_winograd8(const Int8Conv& conv, Isa isa, int threads);

Reason refuses_tiles(const Int8Conv& conv);
std::unique_ptr<Int8Kernel> make_tiles(const Int8Conv& conv, Isa isa, int threads);

}  // namespace tenon::cpu

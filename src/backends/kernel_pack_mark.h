// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace tenon::backends {

/// What a pack of compiled kernels begins with.
inline constexpr std::string_view kernel_pack_mark = "TENONKRN";

}  // namespace tenon::backends

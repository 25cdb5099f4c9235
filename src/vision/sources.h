// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace tenon::vision {

/// The images in a folder, by name, not below it. Throws Error(io) where there is none.
std::vector<std::string> images_in(const std::string& folder);

}  // namespace tenon::vision

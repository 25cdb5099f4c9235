// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tenon::cuda {

/// GPUs and the libraries that serve them, as text, and as members "cuda", "cuda_why" and "cuda_libraries" of `facts`;
/// asking does not fail and starts no work on a GPU.
std::string device_query_text(nlohmann::ordered_json& facts);

}  // namespace tenon::cuda

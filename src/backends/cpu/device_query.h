// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tenon::cpu {

/// The processor, its caches and memory, as text and as the member "cpu" of `facts`.
std::string device_query_text(nlohmann::ordered_json& facts);

}  // namespace tenon::cpu

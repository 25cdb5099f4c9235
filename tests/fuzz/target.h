// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// A fuzz target is one file: it gives seeds and eats bytes. Only an Error may come out of it.
namespace tenon::fuzz {

/// Small inputs that get far.
std::vector<std::string> seeds();
/// Tries these bytes. Anything thrown but tenon::Error is a finding.
void eat(std::span<const uint8_t> bytes);

}  // namespace tenon::fuzz

#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon {

/// XXH3, 64 bits: for integrity, not against an adversary.
uint64_t hash64(std::span<const std::byte> bytes);

}  // namespace tenon

#pragma once
#include <cstdint>
#include <string>

namespace tenon {

/// Counts `bytes` of tensors or arenas against Limits::memory_bytes; false when they do not fit. Thread-safe.
bool take_memory(int64_t bytes);
/// Limits::memory_bytes as it was given; 0 where it was not.
int64_t given_memory_limit();
void give_memory_back(int64_t bytes) noexcept;
/// "1.5 GiB"
std::string memory_text(int64_t bytes);

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>

namespace tenon {

/// Sleeps while the word has this value; may return early.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t value);
/// Wakes so many of those that sleep on the word.
void futex_wake(const std::atomic<uint32_t>& word, int count);

}  // namespace tenon

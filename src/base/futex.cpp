// SPDX-License-Identifier: Apache-2.0
#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tenon {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void call(const std::atomic<uint32_t>& word, int operation, uint32_t value) {
  ::syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

}  // namespace

void futex_wait(const std::atomic<uint32_t>& word, uint32_t value) { call(word, FUTEX_WAIT_PRIVATE, value); }
void futex_wake(const std::atomic<uint32_t>& word, int count) {
  call(word, FUTEX_WAKE_PRIVATE, static_cast<uint32_t>(count));
}

}  // namespace tenon

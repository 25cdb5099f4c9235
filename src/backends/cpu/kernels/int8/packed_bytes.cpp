// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/packed_bytes.h"

#include <sys/mman.h>

#include <cstdint>
#include <mutex>
#include <new>

namespace tenon::cpu {

namespace {

constexpr size_t kPage = size_t{2} << 20, kLine = 64;

// At least `size` zero bytes that begin at a large page.
std::shared_ptr<std::byte> map_stretch(size_t size) {
  const size_t all = size + kPage;
  void* const mapped = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  const auto at = reinterpret_cast<uintptr_t>(mapped), begin = (at + kPage - 1) / kPage * kPage;
  if (begin > at) munmap(mapped, begin - at);
  if (const size_t behind = at + all - (begin + size)) munmap(reinterpret_cast<void*>(begin + size), behind);
  madvise(reinterpret_cast<void*>(begin), size, MADV_HUGEPAGE);
  return {reinterpret_cast<std::byte*>(begin), [size](std::byte* p) { munmap(p, size); }};
}

struct Current {
  std::mutex mutex;
  std::weak_ptr<std::byte> stretch;
  size_t used = 0;
};

}  // namespace

PackedBytes::PackedBytes(size_t size) : size_(size) {
  static Current current;
  const size_t whole = (size + kLine - 1) / kLine * kLine;
  if (whole >= kPage) {
    stretch_ = map_stretch((whole + kPage - 1) / kPage * kPage);
    data_ = stretch_.get();
    return;
  }
  const std::lock_guard lock(current.mutex);
  stretch_ = current.stretch.lock();
  if (!stretch_ || current.used + whole > kPage) {
    stretch_ = map_stretch(kPage);
    current.stretch = stretch_;
    current.used = 0;
  }
  data_ = stretch_.get() + current.used;
  current.used += whole;
}

}  // namespace tenon::cpu

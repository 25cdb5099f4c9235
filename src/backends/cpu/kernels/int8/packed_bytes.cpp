// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/packed_bytes.h"

#include <sys/mman.h>

#include <cstdint>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace tenon::cpu {

namespace {

constexpr size_t kSmallPage = 4096, kPage = size_t{2} << 20, kLine = 64;
constexpr size_t kStretch = 32 * kPage;  // of which those pages are taken that are written to

// Zero bytes that begin at a large page.
std::shared_ptr<std::byte> map_stretch(size_t size) {
  const size_t all = size + kPage;
  void* const mapped = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  const auto at = reinterpret_cast<uintptr_t>(mapped), begin = (at + kPage - 1) / kPage * kPage;
  if (begin > at) munmap(mapped, begin - at);
  if (const size_t behind = at + all - (begin + size)) munmap(reinterpret_cast<void*>(begin + size), behind);
  madvise(reinterpret_cast<void*>(begin), size, MADV_HUGEPAGE);
  return {reinterpret_cast<std::byte*>(begin), [size](std::byte* p) { munmap(p, size); }};
}

// A stretch that somebody holds, and how much of it is taken.
struct Stretch {
  std::weak_ptr<std::byte> memory;
  size_t used = 0;
};

struct Stretches {
  std::mutex mutex;
  std::vector<Stretch> all;

  // The first that has room, or a new one: a part of a large page that is left at its end is resident like the rest.
  std::shared_ptr<std::byte> with_room(size_t size, size_t& at) {
    std::erase_if(all, [](const Stretch& one) { return one.memory.expired(); });
    for (Stretch& one : all) {
      std::shared_ptr<std::byte> memory = one.used + size <= kStretch ? one.memory.lock() : nullptr;
      if (!memory) continue;
      at = one.used;
      one.used += size;
      return memory;
    }
    std::shared_ptr<std::byte> memory = map_stretch(kStretch);
    all.push_back({memory, size});
    at = 0;
    return memory;
  }
};

// Those that have no neighbour in them.
void give_back(std::byte* data, size_t size) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = (at + kSmallPage - 1) / kSmallPage * kSmallPage, end = (at + size) / kSmallPage * kSmallPage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace

PackedBytes::PackedBytes(size_t size) : size_(size) {
  static Stretches stretches;
  const size_t whole = (size + kLine - 1) / kLine * kLine;
  const std::lock_guard lock(stretches.mutex);
  size_t at = 0;
  std::shared_ptr<std::byte> stretch =
      whole > kStretch / 2 ? map_stretch((whole + kPage - 1) / kPage * kPage) : stretches.with_room(whole, at);
  data_ = stretch.get() + at;
  stretch_ = {data_, [stretch = std::move(stretch), whole](std::byte* p) {
                // A stretch that nobody else holds goes as a whole.
                if (stretch.use_count() > 1) give_back(p, whole);
              }};
}

}  // namespace tenon::cpu

// SPDX-License-Identifier: Apache-2.0
#include "base/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>

namespace tenon {
namespace {

constexpr uintptr_t page = 4096;

struct Mapped {
  std::mutex mutex;
  std::map<uintptr_t, uintptr_t> ends;  // by beginning
};

Mapped& mapped() {
  // Files may be closed after static objects are gone.
  static Mapped& all = *new Mapped;
  return all;
}

/// Whether all of it is of one file; under the lock.
bool is_inside(uintptr_t begin, size_t bytes) {
  const auto file = mapped().ends.upper_bound(begin);
  return file != mapped().ends.begin() && begin + bytes <= std::prev(file)->second;
}

}  // namespace

void note_pages(const void* data, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const std::lock_guard lock(mapped().mutex);
  mapped().ends[begin] = begin + bytes;
}

void forget_pages(const void* data) noexcept {
  const std::lock_guard lock(mapped().mutex);
  mapped().ends.erase(reinterpret_cast<uintptr_t>(data));
}

bool is_of_file(const void* data, size_t bytes) noexcept {
  const std::lock_guard lock(mapped().mutex);
  return is_inside(reinterpret_cast<uintptr_t>(data), bytes);
}

void release_pages(const void* data, size_t bytes) noexcept {
  if (bytes < page) return;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const std::lock_guard lock(mapped().mutex);
  if (!is_inside(begin, bytes)) return;
  // Those at the edges hold neighbours, too, which are read again.
  const uintptr_t first = begin / page * page, end = (begin + bytes + page - 1) / page * page;
  madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

}  // namespace tenon

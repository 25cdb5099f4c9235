// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

/// Mapped files that another process cuts off. The system raises SIGBUS where a page is touched that the file does not
/// have any more. The handler puts zeros in the place of what is lost of a file guarded here, and the thread goes on;
/// what it made of them is refused afterwards, by MappedFile::check_lost(). Any other SIGBUS goes to the handler that
/// was there before. A program that installs its own later, and does not call the one that it finds, is guarded no
/// longer.
namespace tenon {

struct GuardedPages {
  std::atomic<uintptr_t> begin{0}, end{0};  // 0: of no file now
  std::atomic<bool> lost{false};
  GuardedPages* next = nullptr;  // never changes, so that the handler may walk on
};

/// `data` is the whole of a file that is mapped to be read; forget_pages() before it is unmapped. The first call
/// installs the handler, once in a process, unless TENON_SIGBUS is off. Thread-safe.
GuardedPages& guard_pages(const void* data, size_t bytes);
void forget_pages(GuardedPages& pages) noexcept;

/// Whether anything was lost in this process, of whatever file: cheap enough for every run.
bool any_pages_lost() noexcept;

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
#include "base/lost_pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <csignal>
#include <mutex>

#include "base/knobs.h"

namespace tenon {
namespace {

constexpr uintptr_t page_bytes = 4096;

// What the handler reads is free of locks and of destructors: files may be closed after static objects are gone.
std::atomic<GuardedPages*> first{nullptr};
std::atomic<bool> any_lost{false};
static_assert(std::atomic<GuardedPages*>::is_always_lock_free && std::atomic<uintptr_t>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);
struct sigaction before;  // written before the handler is installed

/// Zeros from that address to the end of its file, whose rest is gone as well. False where it is of no file here.
bool replaced(uintptr_t address) {
  for (GuardedPages* at = first.load(std::memory_order_acquire); at; at = at->next) {
    const uintptr_t begin = at->begin.load(), end = at->end.load();
    // Both of one file: they are written in this order.
    if (begin == 0 || address < begin || address >= end || at->begin.load() != begin) continue;
    at->lost.store(true, std::memory_order_release);
    any_lost.store(true, std::memory_order_release);
    const uintptr_t from = address / page_bytes * page_bytes, to = (end + page_bytes - 1) / page_bytes * page_bytes;
    return mmap(reinterpret_cast<void*>(from), to - from, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  return false;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(signal, info, context);
  const bool is_fault = info->si_code > 0;
  if (before.sa_handler == SIG_IGN && !is_fault) return;
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  // The process ends as it would have without this handler: a fault is raised again where it happened.
  struct sigaction original = {};
  original.sa_handler = SIG_DFL;
  sigaction(signal, &original, nullptr);
  if (!is_fault) raise(signal);
}

void on_sigbus(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (info->si_code <= 0 || !replaced(reinterpret_cast<uintptr_t>(info->si_addr))) pass_on(signal, info, context);
  errno = error;
}

bool install() {
  if (knobs::value(knobs::sigbus) == "off") return false;
  struct sigaction own = {};
  if (sigaction(SIGBUS, nullptr, &before) != 0) return false;
  own.sa_sigaction = on_sigbus;
  own.sa_mask = before.sa_mask;
  // A handler that was there before may leave by longjmp, or ask for another stack.
  own.sa_flags = SA_SIGINFO | SA_ONSTACK | (before.sa_flags & (SA_NODEFER | SA_RESTART));
  return sigaction(SIGBUS, &own, nullptr) == 0;
}

}  // namespace

GuardedPages& guard_pages(const void* data, size_t bytes) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  [[maybe_unused]] static const bool installed = install();
  GuardedPages* pages = first.load(std::memory_order_relaxed);
  while (pages && pages->begin.load(std::memory_order_relaxed) != 0) pages = pages->next;
  const bool is_new = !pages;
  if (is_new) pages = new GuardedPages;  // used again, and never freed
  const auto begin = reinterpret_cast<uintptr_t>(data);
  pages->lost.store(false);
  pages->end.store(begin + bytes);
  pages->begin.store(begin);
  if (is_new) {
    pages->next = first.load(std::memory_order_relaxed);
    first.store(pages, std::memory_order_release);
  }
  return *pages;
}

void forget_pages(GuardedPages& pages) noexcept { pages.begin.store(0); }

bool any_pages_lost() noexcept { return any_lost.load(std::memory_order_acquire); }

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/memory.h"

namespace tenon::runtime {
namespace {

constexpr size_t grain = size_t{64} << 10;         // smaller tensors are the heap's
constexpr size_t always_spared = size_t{4} << 20;  // bytes

}  // namespace

struct TensorPool::Blocks {
  std::mutex mutex;
  std::multimap<size_t, void*> free;
  size_t free_bytes = 0, used_bytes = 0, most_bytes = 0;  // the last: that were in use
  std::shared_ptr<Budget> budget = current_budget();

  Blocks() = default;
  Blocks(const Blocks&) = delete;
  ~Blocks() { shrink_to(0); }

  /// Gives back the largest until no more than that is free.
  void shrink_to(size_t bytes) {
    while (free_bytes > bytes) {
      const auto largest = std::prev(free.end());
      munmap(largest->second, largest->first);
      give_memory_back(static_cast<int64_t>(largest->first), budget.get());
      free_bytes -= largest->first;
      free.erase(largest);
    }
  }

  /// A block of at least `bytes`, which are made its own size; nullptr: there is no memory.
  void* take(size_t& bytes) {
    const std::lock_guard lock(mutex);
    if (const auto found = free.lower_bound(bytes); found != free.end() && found->first <= bytes * 2) {
      void* const memory = found->second;
      bytes = found->first;
      free.erase(found);
      free_bytes -= bytes, used_bytes += bytes;
      return memory;
    }
    // Little more is held than was once in use at a time: the next run finds what this one gave back.
    most_bytes = std::max(most_bytes, used_bytes + bytes);
    shrink_to(std::max(always_spared, most_bytes + most_bytes / 4 - used_bytes - bytes));
    if (!take_memory(static_cast<int64_t>(bytes))) return nullptr;
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      give_memory_back(static_cast<int64_t>(bytes), budget.get());
      return nullptr;
    }
    used_bytes += bytes;
    return memory;
  }

  void give_back(void* memory, size_t bytes) {
    const std::lock_guard lock(mutex);
    free.emplace(bytes, memory);
    free_bytes += bytes, used_bytes -= bytes;
  }
};

TensorPool::TensorPool() : blocks_(std::make_shared<Blocks>()) {}

Tensor TensorPool::tensor(DType type, const Dims& dims) {
  const Tensor shape = Tensor::view(type, dims, nullptr);
  size_t bytes = size_of(type) ? shape.bytes() : 0;
  if (bytes < grain || blocks_->budget != current_budget()) return {type, dims};
  bytes = (bytes + grain - 1) / grain * grain;
  void* const memory = blocks_->take(bytes);
  if (!memory) return {type, dims};  // which says what there is no memory for
  return Tensor::view(type, dims, memory,
                      {memory, [blocks = blocks_, bytes](void* p) { blocks->give_back(p, bytes); }});
}

}  // namespace tenon::runtime

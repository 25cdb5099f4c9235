// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cuda/runtime/driver.h"
#include "base/memory.h"

/// Memory of a GPU, counted against Limits::memory_bytes.
namespace tenon::cuda {

class Weights;

/// Memory of a device, freed with it.
class Buffer {
 public:
  Buffer() = default;
  /// Throws Error(resource) with what it was for, needed and free bytes.
  explicit Buffer(size_t bytes, const char* what = "weights");
  /// What a step keeps for its runs: a slice of the Weights that this thread fills, else memory of its own.
  static Buffer kept(size_t bytes);
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();
  Address address() const { return address_; }
  size_t bytes() const { return bytes_; }
  /// Done when it returns, for every stream.
  void upload(const void* data, size_t bytes, size_t offset = 0);
  /// Zeros; done when it returns.
  void clear();

 private:
  /// Copies and fills may outlast their calls, and other streams do not wait for the one they are on.
  static void settle();
  void swap(Buffer& other) {
    std::swap(address_, other.address_), std::swap(bytes_, other.bytes_), std::swap(slice_of_, other.slice_of_);
    budget_.swap(other.budget_);
  }
  Address address_ = 0;
  size_t bytes_ = 0;
  Weights* slice_of_ = nullptr;
  std::shared_ptr<Budget> budget_;  // that it counts against
};

/// Page-locked memory of the host.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(size_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept { std::swap(data_, other.data_); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~PinnedBuffer();
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

/// All that the steps of a program keep, one slice behind the other. A range of addresses is reserved for it, and pages
/// of the device's memory are put behind it as slices are taken: what is taken of the device is less than a page more
/// than bytes(). Where the driver has no such ranges, each slice is an allocation. It must outlive its slices.
class Weights {
 public:
  explicit Weights(int device);
  ~Weights();
  Weights(const Weights&) = delete;
  /// While one lives, Buffer::kept() of its thread takes slices.
  class Filling {
   public:
    explicit Filling(Weights& weights);
    ~Filling();
    Filling(const Filling&) = delete;
  };
  /// Of slices and the gaps between them, which begin at multiples of 256 bytes.
  size_t bytes() const { return bytes_; }

 private:
  friend class Buffer;
  /// Throws as Buffer does.
  Address take(size_t bytes);
  /// A slice that is the last makes room for the next.
  void give_back(Address slice, size_t bytes);
  void reserve();
  void put_pages(size_t bytes);

  int device_;
  std::shared_ptr<Budget> budget_;
  size_t bytes_ = 0, page_ = 0, reserved_ = 0;
  Address begin_ = 0;
  std::vector<std::pair<Address, size_t>> pages_;  // put at once
  size_t paged_ = 0;
  std::map<Address, Buffer> own_;  // slices where there are no ranges
};

}  // namespace tenon::cuda

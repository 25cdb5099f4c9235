// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/buffer.h"

#include <tenon/error.h>

#include <atomic>

#include "base/memory.h"

namespace tenon::cuda {
namespace {

constexpr size_t alignment = 256;

std::atomic<int64_t> held{0};  // bytes of all buffers
thread_local Weights* filled = nullptr;

void uncount(size_t bytes, Budget* budget) {
  held -= static_cast<int64_t>(bytes);
  if (budget) budget->give_back(static_cast<int64_t>(bytes), Budget::Where::gpu);
}

/// Counts bytes against the limit: for good, once they are kept.
class Counted {
 public:
  Counted(size_t bytes, const char* what, Budget* budget) : bytes_(bytes), budget_(budget) {
    const auto counted = static_cast<int64_t>(bytes);
    if (budget && !budget->take(counted, Budget::Where::gpu))
      refuse(what, counted, ", the engine's limit is " + memory_text(budget->limits().memory_bytes));
    const int64_t others = held.fetch_add(counted), limit = given_process_limit();
    if (limit <= 0 || counted <= limit - others) return;
    uncount(bytes, budget);
    refuse(what, counted, " beside " + memory_text(others) + ", the limit is " + memory_text(limit));
  }
  ~Counted() {
    if (bytes_) uncount(bytes_, budget_);
  }
  Counted(const Counted&) = delete;
  void keep() { bytes_ = 0; }

 private:
  [[noreturn]] static void refuse(const char* what, int64_t bytes, const std::string& limit) {
    throw Error(Code::resource, "the limit of memory is reached on the GPU",
                {.where = what,
                 .why = "it takes " + memory_text(bytes) + limit,
                 .hint = "raise the limit with --max-memory, or give smaller --shapes"});
  }

  size_t bytes_;
  Budget* budget_;
};

MemoryKind on_device(int device) {
  MemoryKind kind{};
  kind.type = constants::memory_pinned;
  kind.place = {constants::memory_on_device, device};
  return kind;
}

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Buffer::Buffer(size_t bytes, const char* what) : bytes_(bytes), budget_(current_budget()) {
  if (bytes == 0) return;
  Counted counted(bytes, what, budget_.get());
  const int result = driver().MemAlloc(&address_, bytes);
  if (result == constants::out_of_memory) throw short_of_memory(what, bytes);
  check(result, "cuMemAlloc");
  counted.keep();
}

Buffer Buffer::kept(size_t bytes) {
  if (!filled || bytes == 0) return Buffer(bytes);
  Buffer slice;
  slice.address_ = filled->take(bytes), slice.bytes_ = bytes, slice.slice_of_ = filled;
  return slice;
}

Buffer::~Buffer() {
  if (!address_) return;
  if (slice_of_) {
    slice_of_->give_back(address_, bytes_);
    return;
  }
  driver().MemFree(address_);
  uncount(bytes_, budget_.get());
}

void Buffer::upload(const void* data, size_t bytes, size_t offset) {
  if (bytes == 0) return;
  check(driver().MemcpyHtoD(address_ + offset, data, bytes), "cuMemcpyHtoD");
  settle();
}

void Buffer::clear() {
  if (bytes_ == 0) return;
  check(driver().MemsetD8(address_, 0, bytes_), "cuMemsetD8");
  settle();
}

void Buffer::settle() { check(driver().StreamSynchronize(nullptr), "cuStreamSynchronize"); }

PinnedBuffer::PinnedBuffer(size_t bytes) {
  if (bytes == 0) return;
  const int result = driver().MemAllocHost(&data_, bytes);
  if (result == constants::out_of_memory)
    throw Error(Code::resource, "out of page-locked memory of the host",
                {.why = "it takes " + memory_text(static_cast<int64_t>(bytes))});
  check(result, "cuMemAllocHost");
}

PinnedBuffer::~PinnedBuffer() {
  if (data_) driver().MemFreeHost(data_);
}

Weights::Weights(int device) : device_(device), budget_(current_budget()) {}

Weights::Filling::Filling(Weights& weights) { filled = &weights; }
Weights::Filling::~Filling() { filled = nullptr; }

Weights::~Weights() {
  if (!begin_) return;
  const Driver& d = driver();
  d.CtxSynchronize();  // unmapping waits for nobody
  for (const auto& [page, bytes] : pages_) d.MemUnmap(page, bytes);
  d.MemAddressFree(begin_, reserved_);
  uncount(bytes_, budget_.get());
}

Address Weights::take(size_t bytes) {
  const size_t slice = round_up(bytes, alignment);
  if (page_ == 0) reserve();
  if (!begin_) {
    Buffer own(slice);
    const Address at = own.address();
    own_.emplace(at, std::move(own));
    bytes_ += slice;
    return at;
  }
  Counted counted(slice, "weights", budget_.get());
  if (bytes_ + slice > paged_) put_pages(round_up(bytes_ + slice - paged_, page_));
  counted.keep();
  const Address at = begin_ + bytes_;
  bytes_ += slice;
  return at;
}

void Weights::give_back(Address slice, size_t bytes) {
  bytes = round_up(bytes, alignment);
  if (!begin_) {
    own_.erase(slice);
  } else {
    if (slice + bytes != begin_ + bytes_) return;
    uncount(bytes, budget_.get());
  }
  bytes_ -= bytes;
}

/// As many addresses as the device has memory; they cost none. `begin_` stays 0 where the driver has no ranges.
void Weights::reserve() {
  const Driver& d = driver();
  const MemoryKind kind = on_device(device_);
  page_ = 1;
  int handle = 0, has_ranges = 0;
  size_t all = 0;
  check(d.DeviceGet(&handle, device_), "cuDeviceGet");
  check(d.DeviceGetAttribute(&has_ranges, constants::attribute_ranges, handle), "cuDeviceGetAttribute");
  if (!has_ranges || !d.MemSetAccess) return;
  check(d.MemGetAllocationGranularity(&page_, &kind, 0), "cuMemGetAllocationGranularity");
  check(d.DeviceTotalMem(&all, handle), "cuDeviceTotalMem");
  reserved_ = round_up(all, page_);
  check(d.MemAddressReserve(&begin_, reserved_, 0, 0, 0), "cuMemAddressReserve");
}

void Weights::put_pages(size_t bytes) {
  const Driver& d = driver();
  const MemoryKind kind = on_device(device_);
  const MemoryAccess access{kind.place, constants::memory_read_write};
  unsigned long long memory = 0;
  const int result = bytes > reserved_ - paged_ ? constants::out_of_memory : d.MemCreate(&memory, bytes, &kind, 0);
  if (result == constants::out_of_memory) throw short_of_memory("weights", bytes);
  check(result, "cuMemCreate");
  const Address at = begin_ + paged_;
  const int mapped = d.MemMap(at, bytes, 0, memory, 0);
  d.MemRelease(memory);  // it lives on behind its addresses
  check(mapped, "cuMemMap");
  pages_.emplace_back(at, bytes), paged_ += bytes;
  check(d.MemSetAccess(at, bytes, &access, 1), "cuMemSetAccess");
}

}  // namespace tenon::cuda

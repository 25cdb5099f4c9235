#pragma once
#include <tenon/tensor.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/compiler.h"
#include "backends/cuda/driver.h"

namespace tenon::cuda {

struct Properties {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;
  int multiprocessors = 0;
  int shared_bytes = 0;  // most that one block may have
  int64_t l2_bytes = 0, memory_bytes = 0;
  int capability() const { return major * 10 + minor; }
};

/// Properties of device `index`. Throws Error(unsupported) where there is none.
Properties properties_of(int index);

/// Memory of a device, freed with it.
class Buffer {
 public:
  Buffer() = default;
  /// Throws Error(resource) with what it was for, needed and free bytes.
  explicit Buffer(size_t bytes, const char* what = "weights");
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
  void swap(Buffer& other) { std::swap(address_, other.address_), std::swap(bytes_, other.bytes_); }
  Address address_ = 0;
  size_t bytes_ = 0;
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

/// One GPU of this process: its context and the kernels loaded into it. Lives as long as the process.
class Device {
 public:
  /// Throws Error(usage) for an index that is not there, Error(unsupported) where no GPU can be used.
  static Device& get(int index);
  /// The device of `properties.index`, with kernels for these properties, which may be those of a lesser one, compiled
  /// for `architecture`; empty: as architecture_for() says. get() makes those of use; this is for tests of the rest.
  explicit Device(const Properties& properties, std::string architecture = {});
  const Properties& properties() const { return properties_; }
  /// Makes the device current for the calling thread. After give_up(): throws its Error again.
  void use() const;
  /// The device is of no more use to this process: throws Error(internal) with `where`, the step that the fault is
  /// blamed on. The first call's words remain.
  [[noreturn]] void give_up(const Fault& fault, const std::string& where);
  /// Compiles what is needed on all cores; a source that fails is left for function() to report.
  void prepare(const std::vector<Source>& sources);
  /// A kernel of the source, loaded once; `shared_bytes` of dynamic shared memory allowed to it. Thread-safe.
  Function function(const Source& source, const char* name, int shared_bytes = 0);
  /// A constant array `name` of the source's module.
  std::vector<int> constants(const Source& source, const char* name);

 private:
  Module module(const Source& source);

  Properties properties_;
  std::string architecture_;
  Context context_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, Module> modules_;
  std::atomic<bool> dead_ = false;
  std::optional<Error> last_words_;  // set before `dead_`, and never again
};

/// "cuda" is 0, "cuda:2" is 2. Throws Error(usage) for anything else.
int index_of(const std::string& device);

}  // namespace tenon::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/runtime/buffer.h"
#include "backends/cuda/runtime/compiler.h"
#include "backends/cuda/runtime/driver.h"

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
  /// Compiles what is needed on all cores; a source that fails is left for function() to report. `prepared` is told how
  /// many of how many are ready, on this thread, and ends it by false, which is then returned.
  bool prepare(const std::vector<Source>& sources, const std::function<bool(size_t, size_t)>& prepared = {});
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

}  // namespace tenon::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/session.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/schedule.h"
#include "base/thread_pool.h"
#include "base/worker.h"

/// A schedule made ready: compiled, its weights packed; and made to run, its memory taken, its steps recorded.
namespace tenon::backends {

/// Sees what a step has written before any other step runs, and may change it. Every worker calls `after` once for each
/// step, between two barriers.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void after(ir::NodeId node, const Worker& worker) = 0;
};

/// Where intermediate values lie, of one executable or of several that run one after the other.
class Arena {
 public:
  virtual ~Arena() = default;
};

/// Copies an output to the memory of the target, which it then is. Throws Error(usage) where sizes differ.
void fill(Tensor& output, const Tensor& target);

class Executable;
class StreamExecutable;

/// A schedule with its kernels made and its weights packed: immutable, shared by all sessions that run it.
class Compiled : public std::enable_shared_from_this<Compiled> {
 public:
  explicit Compiled(Schedule schedule) : schedule_(std::move(schedule)) {}
  virtual ~Compiled() = default;
  Compiled(const Compiled&) = delete;
  const Schedule& schedule() const { return schedule_; }
  /// With memory of its own to run in; `threads` must outlive it. It takes `arena` where that is on its device and
  /// large enough.
  virtual std::unique_ptr<Executable> executable(ThreadPool& threads, std::shared_ptr<Arena> arena = nullptr) const = 0;

 protected:
  Schedule schedule_;
};

/// Run by one thread at a time.
class Executable {
 public:
  virtual ~Executable() = default;
  Executable() = default;
  Executable(const Executable&) = delete;
  virtual const Schedule& schedule() const = 0;
  /// Inputs and outputs in the graph's order, of the schedule's sizes. Inputs lie in the memory of the process, or of
  /// the device. Outputs refer to memory of the executable, valid until its next run, or are the targets where these
  /// are given and not empty: dense, of the outputs' types and sizes, in memory of the process or of the device.
  virtual void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::span<const Tensor> targets) = 0;
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) { run(inputs, outputs, {}); }
  /// The same with an observer, on a backend whose capabilities say that its values can be observed.
  virtual void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, Observer& observer);
  /// The first element of a value of an arena that can be observed.
  virtual std::byte* address(ir::ValueId value) const;
  /// Memory of an input that a run reads in place.
  virtual Tensor input(size_t at) = 0;
  virtual std::vector<LayerTime> profile(std::span<const Tensor> inputs, int iterations) = 0;
  virtual MemoryUse memory() const = 0;
  /// What another executable of the device may work in, too; nullptr where that is not so.
  virtual std::shared_ptr<Arena> arena() const { return nullptr; }
  /// Where its work is put on streams of a device; nullptr elsewhere.
  virtual StreamExecutable* streams() { return nullptr; }
};

/// An executable whose work is put on streams of its device.
class StreamExecutable : public Executable {
 public:
  StreamExecutable* streams() override { return this; }
  /// Where an input or output of the graph lies on the device.
  virtual uint64_t input_address(size_t at) const = 0;
  virtual uint64_t output_address(size_t at) = 0;
  /// Puts a run on a stream of the device; address 0 stands for the executable's own memory. Throws Error(unsupported)
  /// where a node runs on the host.
  virtual void enqueue(std::span<const uint64_t> inputs, std::span<const uint64_t> outputs, void* stream) = 0;
  /// Milliseconds on the device of each of `iterations` runs on the operands that are there, without copies of inputs
  /// and outputs.
  virtual std::vector<double> time(int iterations) = 0;
  virtual bool has_host_steps() const = 0;
  /// How many steps may run at once.
  virtual int width() const = 0;

  /// Steps of one key by another tactic, and the whole recorded with them.
  class Variant {
   public:
    virtual ~Variant() = default;
  };
  virtual std::unique_ptr<Variant> variant(const std::string& key, const std::string& tactic) = 0;
  /// The executable takes the variant's place, and it the executable's.
  virtual void exchange(Variant& variant) = 0;
};

}  // namespace tenon::backends

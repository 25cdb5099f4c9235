// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "backends/cuda/runtime/copies_params.h"
#include "backends/cuda/runtime/device.h"

/// How a node is run on a GPU: kernels answer for a problem with tactics, and make a step from one.
namespace tenon::cuda {

using backends::Operand;
using backends::Problem;
using backends::Reason;

/// Where a kernel that begins leaves the number of its step, so that a fault can be blamed on it. As common.cuh
/// has it.
struct Breadcrumb {
  Address place = 0;  // of the host's memory; 0: nobody asks
  uint32_t step = 0;
};

struct Launch {
  Stream stream;
  const Address *inputs, *outputs;  // null for constants that the step packed, and for absent operands
  Address workspace;
  Breadcrumb breadcrumb{};
  Address alarm = 0;   // of the host: where a step that had to stop leaves its number; 0: nobody asks
  Address rounds = 0;  // inside a loop: how many rounds have run, of all loops around
};

/// A node made ready to run: packed weights on the device, sizes. Immutable while it runs.
class Step {
 public:
  virtual ~Step() = default;
  virtual size_t workspace_bytes() const { return 0; }
  /// Whether it reads this input where that is a constant; otherwise its own copy serves.
  virtual bool reads(size_t) const { return true; }
  /// Whether its kernels leave a breadcrumb; those of vendors do not.
  virtual bool leaves_breadcrumbs() const { return true; }
  /// Whether strided copies are all that it does; appends them, so that those of several steps may be one launch.
  virtual bool copies(const Launch&, std::vector<CopyPart>&) const { return false; }
  /// Puts the work on the stream, which may be capturing. No allocation.
  virtual void enqueue(const Launch& launch) const = 0;
};

/// A kernel with its parameters chosen: the name is what records keep.
struct Tactic {
  std::string name;
  std::vector<Source> sources;
  std::vector<int> numbers;  // the kernel's own
};

/// A kernel for an op; registered once in its file.
struct Kernel {
  std::string op, name;
  int priority;                                          // tried first without measurements: the highest
  Reason (*refuses)(const Problem&, const Properties&);  // none: it can
  /// Best guess first, at least one.
  std::vector<Tactic> (*tactics)(const Problem&, const Properties&);
  std::unique_ptr<Step> (*make)(const Problem&, Device&, const Tactic&);
  const char* file = "";  // that registers it
};

/// Stands for the op of the kernel that is asked where no other takes a problem.
inline constexpr const char* any_view = "(view)";

struct KernelRegistrar {
  explicit KernelRegistrar(Kernel kernel, const char* file = __builtin_FILE());
  /// For several ops, each in the place of the kernel's own.
  KernelRegistrar(std::initializer_list<const char*> ops, Kernel kernel,
                  const char* file = __builtin_FILE());
};

/// Kernel::make of a step that is made of these three.
template <class Made>
std::unique_ptr<Step> make_step(const Problem& problem, Device& device, const Tactic& tactic) {
  return std::make_unique<Made>(problem, device, tactic);
}

struct Choice {
  const Kernel* kernel = nullptr;  // nullptr: no kernel takes the problem
  Tactic tactic;
};

/// Whether there is a kernel for the op.
bool has_kernel(const ir::OpId& op);
/// Names of the op's kernels, best guess first.
std::vector<std::string> kernel_names(const std::string& op);
/// Everything that takes the problem, best guess first.
std::vector<Choice> choices(const Problem& problem, const Properties& properties);
/// The choice of that name, else the best guess.
Choice choose(const Problem& problem, const Properties& properties, const std::string& name);
/// Hash of what a choice is made of: the file that registers its kernel, with headers of its family, and the texts that
/// it compiles. 0 where the build does not know the file.
uint64_t source_of(const Choice& choice);
/// Whether a step's workspace keeps to Limits::workspace_bytes.
bool fits_workspace(const Step& step);
/// Kernels that do not take the problem, each with its reason.
std::vector<backends::Refusal> refused(const Problem& problem, const Properties& properties);
/// The same as text, for a problem that none takes.
std::string refusals(const Problem& problem, const Properties& properties);

struct Grid {
  int64_t x = 1, y = 1, z = 1;
  int threads = 128;
  int shared_bytes = 0;
};

/// Launches a kernel of two parameters, the breadcrumb and a struct by value. Kernels on compute capability 9.0 and
/// later may start while the one before ends; each waits for it before it touches memory of others.
void launch_bytes(const Device& device, Function function, const Grid& grid, const Launch& at, void* params);
template <class Params>
void launch(const Device& device, Function function, const Grid& grid, const Launch& at, Params params) {
  launch_bytes(device, function, grid, at, &params);
}

/// While one lives, launches of its thread begin when all that they depend on has ended.
class EventWait {
 public:
  EventWait();
  ~EventWait();
  EventWait(const EventWait&) = delete;
};

/// Names of CUDA types for element types that kernels take: f32 is "float", f16 "half", bf16 "bf16", f8e4m3fn "e4m3",
/// u8, i8; empty for others.
const char* type_name(DType type);
inline bool is_16_bit(DType type) { return type == DType::f16 || type == DType::bf16; }
inline bool is_real(DType type) { return is_16_bit(type) || type == DType::f32; }
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace tenon::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/problem.h"
#include "backends/reason.h"
#include "backends/weight_cache.h"
#include "base/worker.h"

/// Kernels that run on the host: they answer for a problem, and make a step from it. Other backends fall back on them.
namespace tenon::backends {

/// A node made ready to run: packed weights, tables, sizes. Immutable while it runs.
class Step {
 public:
  virtual ~Step() = default;
  virtual size_t workspace_bytes() const { return 0; }
  /// Bytes of packed weights held.
  virtual size_t packed_bytes() const { return 0; }
  /// Whether several sessions may run it at once; else each makes its own.
  virtual bool shared() const { return true; }
  /// Whether one worker does all, so that no barrier stands between it and another such step.
  virtual bool alone() const { return false; }
  /// The step of the same node for operands of other sizes and places, as its kernel would make it for so many threads
  /// as this one is for. It shares what does not depend on them. Null: it is made by the kernel.
  virtual std::unique_ptr<Step> resized(const Problem&) const { return nullptr; }
  /// Called by every worker that takes part; a barrier follows. No allocation. Results do not depend on how many take
  /// part, at most as many as the problem has threads.
  virtual void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const = 0;
};

/// A step of an op whose result has a size that data decides (Kernel::finds). All workers find what the result will
/// hold, then run() writes it into memory of the size that is known by then. The workspace is theirs in between.
class FindingStep : public Step {
 public:
  /// Called as run() is.
  virtual void find(std::byte* const* inputs, const Worker& worker) const = 0;
  /// Sizes of the result, once all are done.
  virtual Dims found(const std::byte* workspace) const = 0;
};

/// A kernel for an op; registered once in its file.
struct Kernel {
  std::string op, name;
  int priority;                       // tried first without measurements: the highest
  Reason (*refuses)(const Problem&);  // none: it can; asked through refusal()
  std::unique_ptr<Step> (*make)(const Problem&);
  /// Files of kernels/ that do its work though no header names them: "int8 int8_direct".
  const char* family = "";
  bool finds = false;     // makes a FindingStep: of the output it is told the element type alone
  const char* file = "";  // that registers it
  /// What its step packs, of kernels that may be told to share it; null: not known.
  WeightCache::Form (*form)(const Problem&) = nullptr;
};

struct KernelRegistrar {
  explicit KernelRegistrar(Kernel kernel, const char* file = __builtin_FILE());
};
/// In the op's place: a kernel for every op that computes an expression (ops/expression.h).
inline constexpr const char* any_expression = "(expression)";

/// Kernels of an op, best guess first; "ref" is always last and takes everything.
std::vector<const Kernel*> kernels_for(const std::string& op);
const Kernel& reference_kernel();
/// Why the kernel does not take the problem. One whose outputs have no elements is the reference kernel's.
Reason refusal(const Kernel& kernel, const Problem& problem);
/// The kernel of that name where it takes the problem, else the first that does.
const Kernel& kernel_for(const Problem& problem, const std::string& name);

/// The tactic by which one worker runs the kernel alone: what is so small that others would come too late.
std::string alone(const std::string& name);
bool is_alone(const std::string& tactic);
/// The tactic that runs where this one is asked for.
std::string tactic_for(const Problem& problem, const std::string& tactic);
struct MadeStep {
  std::unique_ptr<Step> step;
  std::string tactic;  // that runs
  const Kernel* kernel = nullptr;
};
/// `known`: the kernel of the tactic, where that ran for other sizes.
MadeStep make_step(const Problem& problem, const std::string& tactic, const Kernel* known = nullptr);

}  // namespace tenon::backends

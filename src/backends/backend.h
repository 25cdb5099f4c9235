#pragma once
#include <tenon/tensor.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/worker.h"
#include "ir/graph.h"

/// How a node is run: kernels answer for a problem, and make a step from it.
namespace tenon::backends {

/// One input or output of a node with concrete sizes. Strides are in elements; a view has larger ones than a dense
/// tensor.
struct Operand {
  DType dtype = DType::undefined;  // undefined: an optional operand that is absent
  Dims dims, strides;
  Tensor constant;                 // empty unless known now
  bool aligned = true;             // begins at a multiple of 16 bytes of its storage
  explicit operator bool() const { return dtype != DType::undefined; }
  bool dense() const;
  /// Rows of contiguous last axis, at any pitch.
  bool rows_contiguous() const { return dims.rank() == 0 || dims.back() == 1 || strides.back() == 1; }
};

Dims dense_strides(const Dims& dims);

/// An attribute of nodes whose operands may be rounded, though those of others may not. It is no part of a signature.
inline constexpr const char* rounding = "rounding";

struct Problem {
  const ir::Node* node = nullptr;
  std::vector<Operand> inputs, outputs;
  int threads = 1;
  bool strict = false;  // no Winograd; on a GPU f32 on plain units, bytes with the CPU's bits
  bool tf32 = false;    // products of f32 may round their operands to tf32
  bool bf16 = false;    // or to bf16
  bool fused = false;   // on a CPU: products are added in one rounding, whatever that takes
  bool vendor = true;   // libraries of the GPU's vendor may serve
};

/// What a kernel sees of the problem, as text: the key of the timing cache.
std::string signature(const Problem& problem);
/// Whether two signatures differ in nothing but the number of threads.
bool same_but_threads(const std::string& left, const std::string& right);

/// A node made ready to run: packed weights, tables, sizes. Immutable while it runs.
class Step {
 public:
  virtual ~Step() = default;
  virtual size_t workspace_bytes() const { return 0; }
  /// Bytes of packed weights held.
  virtual size_t packed_bytes() const { return 0; }
  /// Called by every worker of the team; a barrier follows. No allocation.
  virtual void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) = 0;
};

/// A kernel for an op; registered once in its file.
struct Kernel {
  std::string op, name;
  int rank;                                       // tried first without measurements: the highest
  const char* (*refuses)(const Problem&);         // nullptr: it can; else the reason
  std::unique_ptr<Step> (*make)(const Problem&);
};

struct KernelRegistrar {
  explicit KernelRegistrar(Kernel kernel);
};
/// In the op's place: a kernel for every op that computes an expression (ops/expression.h).
inline constexpr const char* any_expression = "(expression)";

/// A node and the only reader of its result, run as one step so that the result stays in a cache. The step's operands
/// are the first node's inputs, then the second's but its first one; its outputs are the second's.
struct Pair {
  Problem first, second;
};
struct PairKernel {
  std::string name;
  const char* (*refuses)(const Pair&);
  std::unique_ptr<Step> (*make)(const Pair&);
};
struct PairRegistrar {
  explicit PairRegistrar(PairKernel kernel);
};
/// The first that accepts; nullptr when none does.
const PairKernel* pair_kernel(const Pair& pair);
/// The operands of its step, as one problem.
Problem operands_of(const Pair& pair);
inline constexpr const char* pair_prefix = "pair ";
std::string signature(const Pair& pair);

/// Kernels of an op, best guess first; "ref" is always last and takes everything.
std::vector<const Kernel*> kernels_for(const std::string& op);
const Kernel& reference_kernel();

}  // namespace tenon::backends

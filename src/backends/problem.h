// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <string>
#include <vector>

#include "ir/graph.h"

/// What a kernel is asked for: a node with concrete sizes.
namespace tenon::backends {

/// One input or output of a node with concrete sizes. Strides are in elements; a view has larger ones than a dense
/// tensor.
struct Operand {
  DType dtype = DType::undefined;  // undefined: an optional operand that is absent
  Dims dims, strides;
  Tensor constant;      // empty unless known now
  bool aligned = true;  // begins at a multiple of 16 bytes of its storage
  explicit operator bool() const { return dtype != DType::undefined; }
  bool dense() const;
  /// Rows of contiguous last axis, at any pitch.
  bool rows_contiguous() const { return dims.rank() == 0 || dims.back() == 1 || strides.back() == 1; }
};

Dims dense_strides(const Dims& dims);
/// Bytes from the first to past the last element.
size_t extent(const Operand& operand);

/// An attribute of nodes whose operands may be rounded, though those of others may not. It is no part of a signature.
inline constexpr const char* rounding = "rounding";

class WeightCache;

struct Problem {
  const ir::Node* node = nullptr;
  std::vector<Operand> inputs, outputs;
  int threads = 1;
  bool strict = false;  // no Winograd or Strassen; on a GPU f32 on plain units, bytes with the CPU's bits
  bool tf32 = false;    // products of f32 may round their operands to tf32
  bool bf16 = false;    // or to bf16
  bool fused = false;   // on a CPU: products are added in one rounding, whatever that takes
  bool vendor = true;   // libraries of the GPU's vendor may serve
  WeightCache* weights = nullptr;  // where packed weights are shared; no part of a signature
};

/// Whether all operands that are there, inputs and outputs, hold elements of this type.
bool all_of(const Problem& problem, DType dtype);

/// What a kernel sees of the problem, as text that no locale changes: the key of the timing cache. Where the problem
/// has threads it begins with their number ("t4 Conv …").
std::string signature(const Problem& problem);
/// The op of a signature's node.
std::string op_of(const std::string& signature);
/// Whether two signatures differ in nothing but the number of threads.
bool same_but_threads(const std::string& left, const std::string& right);

}  // namespace tenon::backends

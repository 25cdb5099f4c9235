// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <ostream>
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "ir/graph.h"

/// A line of a .cases file: one node, its operands and the kernels that must take it.
///   OP OPERAND… [attribute=value…] [outputs=N] [tolerance=X] [-> kernel,…] [=> kernel,…]
/// Behind -> the folder's own: the CPU's in tests/ops, a GPU's in tests/cuda; behind => those of a GPU in tests/ops, as
/// tests/cuda/kinds.h has it.
/// Operands: f32:2x3 random in [-1, 1]; f32:2x3(0,5) random in a range; i64:2(0,3) random whole numbers from 0 to 2;
/// f32:2x3(odd) random in [-1, 1], but one of 13 zero, the smallest, the largest, infinite or no number; f32:2x3(rare)
/// one of 300, and none the largest; f32:2x3(bytes) random whole numbers from -128 to 127, divided by 128;
/// f32!:2x3 a constant known when the kernel is made; i64![1,-1] a constant list; i64![1,-1]:2x1 one with sizes;
/// f32!{0.5} a constant scalar; _ absent. Attribute values: 1, 0.5, word, [1,2], [0.5,1.5]; reals:4(-1,1) for four
/// numbers in a range; program=[add_%0_%1,relu_%2].
namespace tenon::tests {

struct Case {
  std::string file, text;
  int line = 0;
  std::vector<std::string> kernels;      // words behind ->
  std::vector<std::string> gpu_kernels;  // words behind =>
  bool odd = false;                      // operands hold infinities or what is no number
  double tolerance = 2e-6;               // of floats in f32, see test::Tolerance
  ir::Graph graph;                       // the one node
  std::vector<Tensor> operands;          // with values; empty where absent
  std::vector<char> constant;            // operands known when a kernel is made
  const ir::Node& node() const { return graph.nodes[0]; }
  std::string name() const { return file + ":" + std::to_string(line) + " " + text; }
};

/// Cases in GoogleTest's messages.
inline void PrintTo(const Case& one, std::ostream* to) { *to << one.name(); }

std::vector<std::string> split(const std::string& text, char at);

/// All cases of a folder, in order. Throws std::runtime_error naming the line that cannot be read.
std::vector<Case> read_cases(const std::string& folder);

/// Output types and sizes, by inference where it knows them, else by running the reference kernel.
std::vector<Tensor> reference(const Case& one);

/// Where operands and outputs that are not constant have gaps: behind each innermost row, or, of three axes and more,
/// behind all that the first axis counts, such as images.
enum class Gaps { none, rows, images };

/// " on views" for a message, and of which kind; "" without.
std::string described(Gaps gaps);

backends::Problem problem_of(const Case& one, const std::vector<Tensor>& outputs, int threads, Gaps gaps);

}  // namespace tenon::tests

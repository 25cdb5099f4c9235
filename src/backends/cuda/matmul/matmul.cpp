// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/matmul/matmul.h"

namespace tenon::cuda::matmul {
namespace {

using Params = MatmulParams;

constexpr int64_t tile = 64, low_tile = 32;

Reason refuses(const Problem& problem, const Properties&) {
  Params params;
  if (const Reason reason = shape_of(problem, params)) return reason;
  return exceeds_grid(params);
}

/// Whether rows of contiguous elements are read in chunks of 16 bytes.
bool in_chunks(const Operand& operand, int64_t inner, int64_t outer, const int64_t (&batch)[3], int64_t size) {
  const auto chunk = static_cast<int64_t>(16 / size_of(operand.dtype));
  return operand.aligned && inner == 1 && outer % chunk == 0 && size % chunk == 0 &&
         std::all_of(std::begin(batch), std::end(batch), [&](int64_t stride) { return stride % chunk == 0; });
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  Params p;
  shape_of(problem, p);
  const bool narrow = is_16_bit(problem.inputs[0].dtype), has_products = properties.capability() >= 80;
  const std::vector<std::string> defines = [&] {
    std::vector<std::string> words = epilogue_defines(conv_epilogue(problem));
    for (const std::string& word :
         {define_type("ELEMENT", problem.inputs[0].dtype), define_type("RESULT", problem.outputs[0].dtype),
          define("FLOAT16_ELEMENT", narrow), define("A_K", in_chunks(problem.inputs[0], p.ak, p.am, p.a_batch, p.k)),
          define("B_N", in_chunks(problem.inputs[1], p.bn, p.bk, p.b_batch, p.n)),
          define("A_FAST", p.am == 1 && p.ak != 1), define("B_FAST", p.bk == 1 && p.bn != 1),
          define("BY_ROW", bias_is_by_row(problem))})
      words.push_back(word);
    return words;
  }();
  std::vector<Tactic> list;
  const int64_t blocks = ceil_div(p.n, tile) * ceil_div(p.m, tile) * p.batch[0] * p.batch[1] * p.batch[2];
  const bool few = blocks < 2 * properties.multiprocessors;
  const auto add = [&](const std::string& kind, bool products, bool divided) {
    for (const int64_t rows : {few ? low_tile : tile, few ? tile : low_tile}) {
      Source source{"matmul.cu", defines, ""};
      if (products && !narrow) source = source_from({"tf32.cuh", "matmul.cu"}, defines);
      if (products && !narrow) source.defines.push_back(define("DIVIDED", divided));
      source.defines.push_back(define("PRODUCTS", products));
      source.defines.push_back(define("BM", rows));
      const int threads = products || narrow || rows == low_tile ? 128 : 256;
      list.push_back({kind + std::to_string(rows) + "x64", {source}, {static_cast<int>(rows), threads}});
    }
  };
  if (!narrow && has_products && problem.tf32) add("matrices tf32 ", true, false);
  if (!narrow && has_products && !problem.tf32 && !problem.strict) add("matrices 3xtf32 ", true, true);
  add("matrices ", narrow && has_products, false);
  return list;
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return product_step(problem, device, device.function(tactic.sources[0], "matmul"), tactic.numbers[0],
                      static_cast<int>(tile), tactic.numbers[1]);
}

const KernelRegistrar registered({"MatMul", "matrices", 0, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::matmul

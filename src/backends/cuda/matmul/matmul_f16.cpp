// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/matmul/matmul.h"

namespace tenon::cuda::matmul_f16 {
namespace {

using matmul::bias_is_by_row, matmul::has_operand, matmul::shape_of;

/// Results of a block and of a warp, warps that share the depth of a step, and what lies in shared memory.
struct Tile {
  int rows, columns, warp_rows, warp_columns, slices, depth, stages;
  int threads() const { return rows / warp_rows * (columns / warp_columns) * slices * 32; }
};

constexpr Tile large{128, 128, 64, 32, 1, 32, 4}, tall{128, 64, 64, 32, 1, 32, 4}, middle{64, 64, 32, 32, 1, 32, 4},
    low{32, 64, 32, 16, 1, 64, 4}, deep{64, 64, 32, 32, 2, 64, 3}, small_and_deep{32, 32, 32, 32, 4, 128, 3};
constexpr int64_t least_deep = 256, least_part = 512, most_grid = 65535;

/// How lines of an operand are copied: along depth or across it, in pieces of so many bytes; 0 where they cannot be.
struct Lines {
  bool depth = true;
  int copy = 0;
};

Lines lines_of(const Operand& operand, int64_t along, int64_t across, int64_t depth, int64_t width,
               const int64_t (&batch)[3]) {
  if (!operand.aligned) return {};
  const bool is_along = along == 1 || depth == 1;
  if (!is_along && across != 1 && width != 1) return {};
  const int64_t length = is_along ? depth : width, lines = is_along ? width : depth, pitch = is_along ? across : along;
  for (const int elements : {8, 4, 2}) {
    const bool whole = length % elements == 0 && (lines == 1 || pitch % elements == 0) &&
                       std::all_of(std::begin(batch), std::end(batch), [&](int64_t at) { return at % elements == 0; });
    if (whole) return {is_along, elements * 2};
  }
  return {};
}

struct Operands {
  Lines a, b;
  Operands(const Problem& problem, const MatmulParams& p)
      : a(lines_of(problem.inputs[0], p.ak, p.am, p.k, p.m, p.a_batch)),
        b(lines_of(problem.inputs[1], p.bk, p.bn, p.k, p.n, p.b_batch)) {}
};

Reason refuses(const Problem& problem, const Properties& properties) {
  MatmulParams params;
  if (const Reason reason = shape_of(problem, params)) return reason;
  if (const Reason reason = matmul::exceeds_grid(params)) return reason;
  if (!is_16_bit(problem.inputs[0].dtype)) return {Reason::element_type, "operands", "f16 or bf16"};
  if (properties.capability() < 80) return {Reason::capability, "it", "8.0"};
  const Operands lines(problem, params);
  return lines.a.copy && lines.b.copy ? Reason() : Reason(Reason::not_multiple, "lines of both operands", "4 bytes");
}

/// Whether two neighbours in a row are one of 4 or 8 bytes.
bool in_pairs(const Operand& operand, int64_t across, int64_t pitch, const int64_t (&batch)[3], const MatmulParams& p) {
  return operand.aligned && across == 1 && p.n % 2 == 0 && (p.m == 1 || pitch % 2 == 0) &&
         std::all_of(std::begin(batch), std::end(batch), [](int64_t at) { return at % 2 == 0; });
}

int64_t batch_of(const MatmulParams& p) { return int64_t{p.batch[0]} * p.batch[1] * p.batch[2]; }

std::vector<Tile> tiles_of(const MatmulParams& p, const Properties& properties) {
  const auto blocks = [&](const Tile& tile) {
    return ceil_div(p.m, tile.rows) * ceil_div(p.n, tile.columns) * batch_of(p);
  };
  const bool few = blocks(middle) < properties.multiprocessors, some = blocks(middle) < 2 * properties.multiprocessors;
  std::vector<Tile> list{middle};
  if (p.m > middle.rows && p.n > middle.columns && blocks(large) >= properties.multiprocessors) list.push_back(large);
  if (p.m > middle.rows) list.push_back(tall);
  if (p.m <= low.rows || some) list.push_back(low);
  if (few && p.k >= least_deep) list.push_back(deep), list.push_back(small_and_deep);
  return list;
}

/// Parts of the depth that give each multiprocessor a block; 1 where results alone do, or depth is short.
int parts_of(const MatmulParams& p, const Tile& tile, const Properties& properties) {
  const int64_t blocks = ceil_div(p.m, tile.rows) * ceil_div(p.n, tile.columns) * batch_of(p);
  const int64_t parts = std::min<int64_t>(properties.multiprocessors / blocks, p.k / least_part);
  return batch_of(p) * parts > most_grid ? 1 : static_cast<int>(std::max<int64_t>(parts, 1));
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  MatmulParams p;
  shape_of(problem, p);
  const Operands lines(problem, p);
  std::vector<Tactic> list;
  const auto add = [&](const Tile& tile, int parts) {
    Source source{"matmul_f16.cu", epilogue_defines(conv_epilogue(problem)), ""};
    for (const std::string& word :
         {define_type("ELEMENT", problem.inputs[0].dtype), define_type("RESULT", problem.outputs[0].dtype),
          define("A_DEPTH", lines.a.depth), define("B_DEPTH", lines.b.depth), define("A_COPY", lines.a.copy),
          define("B_COPY", lines.b.copy), define("BM", tile.rows), define("BN", tile.columns),
          define("WM", tile.warp_rows), define("WN", tile.warp_columns), define("SLICES", tile.slices),
          define("BK", tile.depth), define("STAGES", tile.stages), define("BY_ROW", bias_is_by_row(problem)),
          define("PARTED", parts > 1), define("PAIRS", in_pairs(problem.outputs[0], p.cn, p.cm, p.c_batch, p)),
          define("OTHER_PAIRS", has_operand(problem, 3) && in_pairs(problem.inputs[3], p.rn, p.rm, p.r_batch, p))})
      source.defines.push_back(word);
    const int a = lines.a.depth ? tile.rows * (tile.depth + 8) : tile.depth * (tile.rows + 8),
              b = lines.b.depth ? tile.columns * (tile.depth + 8) : tile.depth * (tile.columns + 8);
    const int sums = (tile.slices - 1) * tile.rows * tile.columns * 4;  // that slices join
    std::string name = "pipelined " + std::to_string(tile.rows) + "x" + std::to_string(tile.columns);
    if (tile.slices > 1) name += " by " + std::to_string(tile.slices);
    if (parts > 1) name += " in " + std::to_string(parts) + " parts";
    list.push_back(
        {name, {source}, {tile.rows, tile.columns, tile.threads(), std::max((a + b) * 2 * tile.stages, sums), parts}});
  };
  for (const Tile& tile : tiles_of(p, properties)) add(tile, 1);
  for (const Tile& tile : {small_and_deep, middle})
    if (const int parts = parts_of(p, tile, properties); parts > 1) add(tile, parts);
  return list;
}

/// Sums of the parts of the depth, then results.
class PartsStep : public Step {
 public:
  PartsStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        sums_(device.function(tactic.sources[0], "matmul_f16", tactic.numbers[3])),
        join_(device.function(tactic.sources[0], "join_parts")),
        bias_(has_operand(problem, 2)),
        residual_(has_operand(problem, 3)) {
    shape_of(problem, params_);
    params_.parts = tactic.numbers[4];
    const int64_t batch = batch_of(params_), results = int64_t{params_.m} * params_.n;
    sums_grid_ = {ceil_div(params_.n, tactic.numbers[1]), ceil_div(params_.m, tactic.numbers[0]), batch * params_.parts,
                  tactic.numbers[2], tactic.numbers[3]};
    join_grid_ = {ceil_div(results, 256), batch, 1, 256, 0};
    bytes_ = static_cast<size_t>(batch * params_.parts * results) * sizeof(float);
  }
  size_t workspace_bytes() const override { return bytes_; }
  void enqueue(const Launch& at) const override {
    MatmulParams params = params_;
    params.a = at.inputs[0], params.b = at.inputs[1], params.c = at.outputs[0], params.sums = at.workspace;
    if (bias_) params.bias = at.inputs[2];
    if (residual_) params.residual = at.inputs[3];
    launch(device_, sums_, sums_grid_, at, params);
    launch(device_, join_, join_grid_, at, params);
  }

 private:
  Device& device_;
  Function sums_, join_;
  bool bias_, residual_;
  MatmulParams params_{};
  Grid sums_grid_, join_grid_;
  size_t bytes_ = 0;
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  const std::vector<int>& numbers = tactic.numbers;
  if (numbers[4] > 1) return std::make_unique<PartsStep>(problem, device, tactic);
  return matmul::product_step(problem, device, device.function(tactic.sources[0], "matmul_f16", numbers[3]), numbers[0],
                              numbers[1], numbers[2], numbers[3]);
}

const KernelRegistrar registered({"MatMul", "pipelined", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::matmul_f16

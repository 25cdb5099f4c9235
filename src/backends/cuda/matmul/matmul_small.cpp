// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/matmul/matmul.h"

namespace tenon::cuda::matmul_small {
namespace {

using matmul::bias_is_by_row, matmul::has_operand, matmul::shape_of;

constexpr int most_rows = 16, most_depth = 32;
constexpr int most_values = 64;             // of B in a thread's registers
constexpr int64_t shared_bytes = 40 << 10;  // for the matrices A of a block
constexpr int block_threads = 256, warp = 32;
constexpr int64_t most_blocks = 65535;  // of a grid's second axis

/// A product whose rows are few: its operands change places where only its columns are.
struct Product {
  MatmulParams p;
  bool turned = false;
  Reason reason;

  explicit Product(const Problem& problem) : reason(shape_of(problem, p)) {
    if (reason) return;
    if (p.m > most_rows && p.n <= most_rows) {
      turned = true;
      std::swap(p.m, p.n), std::swap(p.am, p.bn), std::swap(p.ak, p.bk), std::swap(p.a_batch, p.b_batch);
      std::swap(p.cm, p.cn), std::swap(p.rm, p.rn);
    }
    if (p.m > most_rows) reason = {Reason::too_many, most_rows, "rows and columns"};
    else if (p.k > most_depth) reason = {Reason::too_many, most_depth, "products to add up"};
    else if (count() >= int64_t{1} << 31 || ceil_div(p.n, block_threads / warp) > most_blocks)
      reason = Reason::too_large;
    else if (count() == 0 || p.m == 0 || p.n == 0) reason = Reason::empty;
  }
  int64_t count() const { return int64_t{p.batch[0]} * p.batch[1] * p.batch[2]; }
  /// The axis of the batch along which results, or else values of B, are neighbours; -1: none.
  int fast_axis() const {
    for (const auto* strides : {&p.c_batch, &p.b_batch})
      for (int axis = 0; axis < 3; ++axis)
        if (p.batch[axis] > 1 && (*strides)[axis] == 1) return axis;
    return -1;
  }
  void put_fast_axis_last() {
    const int axis = fast_axis();
    if (axis < 0) return;
    for (auto* strides : {&p.a_batch, &p.b_batch, &p.c_batch, &p.r_batch}) std::swap((*strides)[axis], (*strides)[2]);
    std::swap(p.batch[axis], p.batch[2]);
  }
};

/// Products of a block, threads of each and columns of a thread.
struct Tile {
  bool along_batch;
  int products, groups, columns;
};

int power_of_two_up_to(int64_t limit) {
  int power = 1;
  while (power * 2 <= limit) power *= 2;
  return power;
}

Tile tile_of(const MatmulParams& p, bool along_batch, int columns) {
  const int64_t fitting = shared_bytes / 4 / (p.m * p.k + 1), wanted = ceil_div(p.n, columns);
  const int most_groups = power_of_two_up_to(2 * wanted - 1);  // no fewer than wanted
  if (along_batch) {
    const int products = std::min(warp, power_of_two_up_to(fitting));
    return {true, products, std::min(block_threads / warp, most_groups), columns};
  }
  const int groups = std::min(warp, most_groups);
  return {false, std::min(block_threads / groups, power_of_two_up_to(fitting)), groups, columns};
}

Reason refuses(const Problem& problem, const Properties&) { return Product(problem).reason; }

Source source_of(const Problem& problem, const Product& product, const Tile& tile, int a_fast) {
  Source source{"matmul_small.cu", epilogue_defines(conv_epilogue(problem)), ""};
  for (const std::string& word :
       {define_type("ELEMENT", problem.inputs[0].dtype), define_type("RESULT", problem.outputs[0].dtype),
        define("M", product.p.m), define("K", product.p.k), define("A_FAST", a_fast),
        define("ALONG_BATCH", tile.along_batch), define("PRODUCTS", tile.products), define("GROUPS", tile.groups),
        define("COLUMNS", tile.columns), define("BY_ROW", bias_is_by_row(problem) != product.turned)})
    source.defines.push_back(word);
  return source;
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  Product product(problem);
  const MatmulParams& p = product.p;
  product.put_fast_axis_last();
  // Where results are neighbours, first.
  std::vector<bool> orders{false};
  if (product.fast_axis() >= 0) orders.insert(p.cn == 1 ? orders.end() : orders.begin(), true);
  const int a_fast = p.a_batch[2] == 1 && p.batch[2] > 1 ? 2 : p.am == 1 && p.ak != 1 ? 1 : 0;
  std::vector<Tactic> list, few;
  for (const bool along_batch : orders)
    for (const int columns : {4, 2, 1}) {
      if (columns > 1 && (columns > p.n || columns * p.k > most_values)) continue;
      const Tile tile = tile_of(p, along_batch, columns);
      const int64_t blocks = ceil_div(product.count(), tile.products) * ceil_div(p.n, tile.groups * tile.columns);
      const std::string name = "small by " + std::to_string(columns) + (along_batch ? " along the batch" : "");
      auto& to = blocks < properties.multiprocessors && columns > 1 ? few : list;
      to.push_back(
          {name, {source_of(problem, product, tile, a_fast)}, {along_batch, tile.products, tile.groups, tile.columns}});
    }
  list.insert(list.end(), few.begin(), few.end());
  return list;
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Product product(problem);
  product.put_fast_axis_last();
  const Tile tile{tactic.numbers[0] != 0, tactic.numbers[1], tactic.numbers[2], tactic.numbers[3]};
  const Grid grid{ceil_div(product.count(), tile.products), ceil_div(product.p.n, tile.groups * tile.columns), 1,
                  tile.products * tile.groups, 0};
  return matmul::product_step(problem, device, device.function(tactic.sources[0], "matmul_small"), product.p, grid,
                              product.turned);
}

const KernelRegistrar registered({"MatMul", "small", 2, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::matmul_small

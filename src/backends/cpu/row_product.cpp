// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/row_product.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/byte_grid.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/int8/byte_rows.h"
#include "backends/cpu/kernels/support.h"
#include "backends/cpu/packing.h"

namespace tenon::cpu {
namespace {

using backends::Problem;

class FloatProduct final : public RowProduct {
 public:
  FloatProduct(const Sizes& sizes, const float* weights, const std::vector<float>& bias, const Problem& problem) {
    const auto [m, k, n, pitch] = sizes;
    const ConvShape shape = rows_shape(m, k, n, pitch);
    const ConvTactic* chosen = nullptr;
    for (const char* name : {"gemv", "direct"})
      for (const ConvTactic& tactic : conv_tactics(isa_for(problem)))
        if (!chosen && !std::strcmp(tactic.name, name) && !tactic.refuses(shape, {})) chosen = &tactic;
    if (!chosen) return;
    const Dims dims{n, k};
    packed_ = packed_from(weights, 0, problem, *chosen, shape,
                          [&] { return Tensor::view(DType::f32, dims, const_cast<float*>(weights)); });
    kernel_ = chosen->make(shape, {}, floats_of(*packed_), bias.data(), problem.threads);
  }
  bool is_made() const { return kernel_ != nullptr; }
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  size_t packed_bytes() const override { return packed_->size(); }
  void run(const float* rows, float* out, const Worker& worker) const override {
    kernel_->run(rows, nullptr, out, worker);
  }

 private:
  Packed packed_;
  std::unique_ptr<ConvKernel> kernel_;
};

class ByteProduct final : public RowProduct {
 public:
  ByteProduct(const Sizes& sizes, const ByteRowOps& ops, Packed packed, const std::vector<float>& bias, int threads)
      : ops_(ops),
        sizes_(sizes),
        packed_(std::move(packed)),
        bias_(bias),
        threads_(threads),
        plane_(align_up(byte_row_steps(sizes.k) * 4, 64)) {}
  size_t workspace_bytes() const override { return static_cast<size_t>(own() * threads_); }
  size_t packed_bytes() const override { return packed_->size(); }
  void run(const float* rows, float* out, const Worker& worker) const override {
    const ByteRowWeights weights{sizes_.n, sizes_.k, packed_->data()};
    int64_t begin, end;
    worker.share(byte_panels(weights, ops_.columns), begin, end);
    if (begin == end) return;
    auto* const room = reinterpret_cast<int8_t*>(worker.workspace + own() * worker.id);
    RoundedRow rounded[most_rows];
    for (int64_t first = 0; first < sizes_.m; first += most_rows) {
      const int64_t count = std::min(most_rows, sizes_.m - first);
      for (int64_t row = 0; row < count; ++row) {
        rounded[row].high = room + 2 * row * plane_, rounded[row].low = rounded[row].high + plane_;
        ops_.round(rows + (first + row) * sizes_.k, sizes_.k, rounded[row]);
      }
      ops_.multiply(weights, rounded, count, bias_.data(), out + first * sizes_.pitch, sizes_.pitch, begin, end);
    }
  }

 private:
  static constexpr int64_t most_rows = 24;  // rounded together, beside a panel in a core's cache
  int64_t own() const { return set_apart(2 * std::min(most_rows, sizes_.m) * plane_); }

  const ByteRowOps& ops_;
  Sizes sizes_;
  Packed packed_;
  std::vector<float> bias_;
  int threads_;
  int64_t plane_;  // bytes of a row
};

}  // namespace

std::unique_ptr<RowProduct> float_product(const RowProduct::Sizes& sizes, const float* weights,
                                          const std::vector<float>& bias, const Problem& problem) {
  auto product = std::make_unique<FloatProduct>(sizes, weights, bias, problem);
  return product->is_made() ? std::move(product) : nullptr;
}

std::unique_ptr<RowProduct> byte_product(const RowProduct::Sizes& sizes, const float* weights,
                                         const std::vector<float>& bias, const Problem& problem) {
  constexpr int64_t most_steps = 1 << 16;  // of 255 * 127, which 32 bits add up
  const ByteRowOps& ops = byte_row_ops(isa_for(problem));
  if (sizes.k > most_steps) return nullptr;
  const ByteRowWeights form{sizes.n, sizes.k, nullptr};
  const auto make = [&]() -> Packed {
    const auto grid = byte_grid(weights, sizes.n, sizes.k);
    if (!grid) return nullptr;
    const auto packed = std::make_shared<const PackedBytes>(
        static_cast<size_t>(byte_panels(form, ops.columns) * byte_panel_bytes(form, ops.columns)));
    pack_byte_rows(form, ops.columns, grid->bytes.data(), grid->zeros.data(), grid->scales.data(), packed->data());
    return packed;
  };
  const auto number = [](auto pointer) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer)); };
  Packed packed = problem.weights ? problem.weights->get(
                                        {number(weights), number(&pack_byte_rows), sizes.n, sizes.k, ops.columns}, make)
                                  : make();
  if (!packed) return nullptr;
  return std::make_unique<ByteProduct>(sizes, ops, std::move(packed), bias, problem.threads);
}

}  // namespace tenon::cpu

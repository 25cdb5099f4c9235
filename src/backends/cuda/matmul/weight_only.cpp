// SPDX-License-Identifier: Apache-2.0
#include "ops/weight_only.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/matmul/weight_only_params.h"
#include "ops/floats.h"
#include "ops/half.h"

namespace tenon::cuda::weight_only {
namespace {

using Params = WeightOnlyParams;
namespace slots = ops::weight_only;

constexpr int64_t tile = 16, most_axes = 4, most_blocks = 65535;

bool has(const Problem& problem, size_t input) { return input < problem.inputs.size() && problem.inputs[input]; }

/// Sizes and form of the weights, and how they are cut.
struct Form {
  int64_t m, n, k, block, blocks, bits;
  bool zeros, f32;  // f32: rows of x are, which become three columns each
  int64_t parts() const { return f32 ? 3 : 1; }
  int64_t chunk() const { return bits == 4 ? 64 : 32; }      // of K in 16 bytes a lane
  int64_t room() const { return ceil_div(block, 16) * 16; }  // of a block along K
  bool gaps() const { return blocks > 1 && room() > block; }
  int64_t depth() const { return gaps() ? blocks * room() : k; }
  int64_t groups(int64_t loads) const { return ceil_div(depth(), loads * chunk()); }
  /// Weights of a scale as the kernel has them: a power of two of those that have it; 0 where a row has one.
  int64_t scale(int64_t loads) const {
    if (blocks == 1) return 0;
    return std::min(int64_t{1} << std::countr_zero(static_cast<uint64_t>(room())), loads * chunk());
  }
};

Form form_of(const Problem& problem) {
  const ir::Node& node = *problem.node;
  Form form{};
  form.k = node.integer("k", 1), form.block = node.integer("block", 32), form.bits = node.integer("bits", 4);
  form.m = problem.inputs[slots::data].dims.elements() / form.k;
  form.n = problem.inputs[slots::weights].dims[0], form.blocks = ceil_div(form.k, form.block);
  form.zeros = has(problem, slots::zero_points);
  form.f32 = problem.inputs[slots::data].dtype == DType::f32;
  return form;
}

bool rows_contiguous(const Problem& problem) {
  return problem.inputs[slots::data].rows_contiguous() && problem.outputs[0].rows_contiguous() &&
         (!has(problem, slots::residual) || problem.inputs[slots::residual].rows_contiguous());
}

Reason refuses(const Problem& problem, const Properties& properties) {
  if (properties.capability() < 80) return {Reason::capability, "mma.sync", "8.0"};
  if (problem.node->has("slopes")) return {Reason::activation, "one without slopes"};
  const Operand &x = problem.inputs[slots::data], &y = problem.outputs[0];
  if (!is_real(x.dtype) || (y.dtype != x.dtype && y.dtype != DType::f32))
    return {Reason::element_type, "data", "f32, f16 or bf16"};
  if (has(problem, slots::bias) &&
      (problem.inputs[slots::bias].dtype != DType::f32 || !problem.inputs[slots::bias].dense()))
    return {Reason::element_type, "the bias", "f32"};
  if (has(problem, slots::residual) && problem.inputs[slots::residual].dtype != y.dtype)
    return {Reason::element_type, "the residual", "the result's type"};
  for (const size_t input : {slots::weights, slots::scales, slots::zero_points})
    if (has(problem, input) && !problem.inputs[input].constant) return {Reason::not_constant, "weights and scales"};
  const Form form = form_of(problem);
  if (form.m == 0) return Reason::empty;
  if (x.dims.rank() > most_axes) return {Reason::too_many, most_axes, "axes"};
  if (!rows_contiguous(problem)) return {Reason::not_contiguous, "rows"};
  if (form.m >= int64_t{1} << 31 || form.k >= int64_t{1} << 31 || form.n >= int64_t{1} << 31 ||
      ceil_div(form.m * form.parts(), 8) > most_blocks)
    return Reason::too_large;
  return {};
}

/// Whether rows of x are read in chunks of 16 bytes.
bool is_aligned(const Problem& problem, const Form& form) {
  const Operand& x = problem.inputs[slots::data];
  bool aligned = x.aligned && form.k % 8 == 0 && !form.gaps();
  for (size_t axis = 0; axis + 1 < x.dims.rank(); ++axis) aligned &= x.dims[axis] == 1 || x.strides[axis] % 8 == 0;
  return aligned;
}

/// Scales of f16 that are those of the model exactly, or once each row of them has a factor, or f32.
enum class Scales : uint8_t { exact, with_factors, wide };

Scales scales_of(const Problem& problem, const Form& form) {
  if (form.blocks == 1) return Scales::with_factors;
  const Tensor scales = ops::as_f32(problem.inputs[slots::scales].constant);
  const float* from = scales.data<float>();
  const bool exact = std::all_of(from, from + scales.elements(),
                                 [](float scale) { return ops::f16_value(ops::f16_bits(scale)) == scale; });
  return exact ? Scales::exact : form.f32 ? Scales::wide : Scales::with_factors;
}

struct Cut {
  int64_t warps, split, tiles, columns, loads;  // columns: eights of them
};

Tactic tactic_of(const Problem& problem, const Form& form, Scales scales, const Cut& cut,
                 const Properties& properties) {
  Source source{"weight_only.cu", epilogue_defines(conv_epilogue(problem)), ""};
  for (const std::string& word :
       {define_type("ELEMENT", problem.inputs[slots::data].dtype), define_type("RESULT", problem.outputs[0].dtype),
        define("FLOAT_ELEMENT", form.f32), define("BITS", form.bits), define("LOADS", cut.loads),
        define("BLOCK", form.block), define("SCALE", form.scale(cut.loads)), define("WIDE", scales == Scales::wide),
        define("ZEROS", form.zeros), define("FACTORS", scales == Scales::with_factors),
        define("ALIGNED", is_aligned(problem, form)), define("STREAM", properties.capability() >= 90),
        define("TILES", cut.tiles), define("NT", cut.columns),
        define("TAIL", form.depth() % (cut.loads * form.chunk()) != 0), define("WARPS", cut.warps),
        define("SPLIT", cut.split)})
    source.defines.push_back(word);
  std::string name = "rows ";
  name += std::to_string(cut.tiles * tile) + "x" + std::to_string(cut.columns * 8) + " by " +
          std::to_string(cut.split) + " of " + std::to_string(cut.loads);
  const auto number = [](int64_t value) { return static_cast<int>(value); };
  return {name,
          {source},
          {number(cut.warps), number(cut.split), number(cut.tiles), number(cut.columns), number(cut.loads),
           static_cast<int>(scales)}};
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  const Form form = form_of(problem);
  const Scales scales = scales_of(problem, form);
  const int64_t all = ceil_div(form.m * form.parts(), 8), tiles = ceil_div(form.n, tile);
  std::vector<Tactic> list;
  const auto add = [&](const Cut& cut) {
    Tactic made = tactic_of(problem, form, scales, cut, properties);
    if (std::none_of(list.begin(), list.end(), [&](const Tactic& one) { return one.name == made.name; }))
      list.push_back(std::move(made));
  };
  constexpr int64_t most_columns = 6;  // of a kernel whose blocks split K
  if (all <= most_columns) {
    // As many warps as keep the memory busy, each with as long a part of K as leaves so many.
    const int64_t columns = all <= 3 ? all : most_columns;
    const int64_t wanted = int64_t{16} * properties.multiprocessors;
    int64_t split = 1;
    while (split < 16 && tiles * split < wanted && split * 2 <= form.groups(1)) split *= 2;
    for (const int64_t part : {split, std::max<int64_t>(1, split / 2), std::min<int64_t>(16, split * 2)})
      for (const int64_t loads : {2, 4, 1}) {
        if ((loads > 1 && form.groups(loads) < part) || (loads > 2 && form.f32)) continue;
        add({std::max<int64_t>(8, part), part, 1, columns, loads});
        if (form.f32 || tiles >= 2 * wanted) add({std::max<int64_t>(8, part), part, 2, columns, loads});
      }
    if (list.empty()) add({8, std::min<int64_t>(split, 8), 1, columns, 1});
    return list;
  }
  add({8, 1, 2, 8, 2}), add({8, 1, 1, 8, 2}), add({8, 2, 2, 8, 2}), add({8, 1, 2, 4, 2});
  return list;
}

/// Weights of a form and cut as the kernel reads them.
class Packer {
 public:
  Packer(const Problem& problem, const Form& form, int64_t loads, Scales scales)
      : form_(form),
        kind_(scales),
        loads_(loads),
        groups_(form.groups(loads)),
        scale_(form.scale(loads)),
        integers_(problem.inputs[slots::weights].constant),
        steps_(ops::as_f32(problem.inputs[slots::scales].constant)),
        zeros_(form.zeros ? problem.inputs[slots::zero_points].constant : Tensor()),
        row_bytes_(form.blocks * slots::block_bytes(form.block, form.bits)) {
    const int64_t tiles = ceil_div(form.n, tile), weight_bytes = tiles * groups_ * loads * 512;
    const int64_t scales_of_tile = scale_ ? groups_ * loads * form.chunk() / scale_ * tile : tile;
    scales_at = weight_bytes;
    zeros_at = scales_at + tiles * scales_of_tile * (kind_ == Scales::wide ? 4 : 2);
    factors_at = (zeros_at + (form.zeros ? tiles * scales_of_tile : 0) + 15) / 16 * 16;
    bias_at = factors_at + tiles * tile * 4;
    bytes.resize(static_cast<size_t>(bias_at + form.n * 4));
    if (kind_ == Scales::with_factors) put_factors();
    for (int64_t at = 0; at < tiles; ++at) put_weights(at), put_scales(at);
  }

  std::vector<std::byte> bytes;
  int64_t scales_at, zeros_at, factors_at, bias_at;

 private:
  /// Block of what stands at `k` along the kernel's K.
  int64_t block_of(int64_t k) const { return form_.blocks == 1 ? 0 : k / form_.room(); }
  /// Bytes before integer `k` of a row along the kernel's K, or the row's size where there is none.
  int64_t byte_of(int64_t k) const {
    const int64_t block = block_of(k), in_block = k - block * (form_.blocks == 1 ? 0 : form_.room());
    if (block >= form_.blocks || in_block >= form_.block) return row_bytes_;
    return block * slots::block_bytes(form_.block, form_.bits) + in_block * form_.bits / 8;
  }

  void put_factors() {
    factors_.resize(static_cast<size_t>(form_.n));
    for (int64_t n = 0; n < form_.n; ++n) {
      const float* row = steps_.data<float>() + n * form_.blocks;
      float largest = form_.blocks == 1 ? row[0] : 0;
      for (int64_t at = 0; at < form_.blocks; ++at)
        if (form_.blocks > 1) largest = std::max(largest, std::abs(row[at]));
      factors_[static_cast<size_t>(n)] = largest;
    }
    std::memcpy(bytes.data() + factors_at, factors_.data(), factors_.size() * 4);
  }

  /// Eight weights of a row for a lane, from step `k` of its 32 on: words[1] for those of 8 bits.
  void put_row(int64_t n, int64_t k, int64_t lane, uint32_t (&words)[2]) const {
    words[0] = words[1] = 0;
    if (n >= form_.n) return;
    const uint8_t* row = integers_.data<uint8_t>() + n * row_bytes_;
    for (int64_t pair = 0; pair < 4; ++pair) {
      const bool fours = scale_ && scale_ < 32;
      const int64_t first = fours ? k + pair / 2 * 16 + lane * 4 + pair % 2 * 2 : k + lane * 8 + pair * 2;
      const int64_t at = byte_of(first), next = byte_of(first + 1);
      const uint32_t low = at < row_bytes_ ? row[at] : 0u, high = next < row_bytes_ ? row[next] : 0u;
      if (form_.bits == 4) words[0] |= (low & 15u) << 4 * pair | (low >> 4) << (4 * pair + 16);
      else words[pair / 2] |= (low | high << 8) << pair % 2 * 16;
    }
  }

  void put_weights(int64_t t) {
    const int64_t chunks = groups_ * loads_;
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      for (int64_t lane = 0; lane < 32; ++lane) {
        uint32_t words[4], row[2];
        for (int64_t half = 0; half < 2; ++half) {
          const int64_t n = t * tile + lane / 4 + half * 8, k = chunk * form_.chunk();
          put_row(n, k, lane % 4, row);
          if (form_.bits == 8) {
            words[half * 2] = row[0], words[half * 2 + 1] = row[1];
          } else {
            words[half] = row[0];
            put_row(n, k + 32, lane % 4, row);
            words[half + 2] = row[0];
          }
        }
        std::memcpy(bytes.data() + ((t * chunks + chunk) * 32 + lane) * 16, words, 16);
      }
  }

  void put_scales(int64_t t) {
    const int64_t each = scale_ ? loads_ * form_.chunk() / scale_ : 1, groups = scale_ ? groups_ : 1;
    for (int64_t group = 0; group < groups; ++group)
      for (int64_t row = 0; row < tile; ++row)
        for (int64_t at = 0; at < each; ++at) {
          const int64_t n = t * tile + row, k = (group * each + at) * scale_;
          if (n >= form_.n || block_of(k) >= form_.blocks) continue;
          const int64_t from = n * form_.blocks + block_of(k);
          const int64_t to = (((t * groups + group) * 8 + row % 8) * each + at) * 2 + row / 8;
          if (form_.zeros) bytes[static_cast<size_t>(zeros_at + to)] = std::byte{zeros_.data<uint8_t>()[from]};
          put_scale(steps_.data<float>()[from], n, to);
        }
  }
  void put_scale(float scale, int64_t n, int64_t to) {
    if (kind_ == Scales::wide) return (void)std::memcpy(bytes.data() + scales_at + to * 4, &scale, 4);
    if (kind_ == Scales::with_factors) {
      const float factor = factors_[static_cast<size_t>(n)];
      scale = factor == 0 ? 0 : scale / factor;
    }
    const uint16_t bits = ops::f16_bits(scale);
    std::memcpy(bytes.data() + scales_at + to * 2, &bits, 2);
  }

  const Form form_;
  Scales kind_;
  int64_t loads_, groups_, scale_;
  Tensor integers_, steps_, zeros_;
  int64_t row_bytes_;
  std::vector<float> factors_;
};

class WeightOnlyStep : public Step {
 public:
  WeightOnlyStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        function_(device.function(tactic.sources[0], "weight_only")),
        residual_(has(problem, slots::residual)) {
    const Form form = form_of(problem);
    const int64_t warps = tactic.numbers[0], split = tactic.numbers[1], tiles = tactic.numbers[2],
                  columns = tactic.numbers[3], loads = tactic.numbers[4];
    Packer packer(problem, form, loads, static_cast<Scales>(tactic.numbers[5]));
    if (has(problem, slots::bias)) {
      const Operand& bias = problem.inputs[slots::bias];
      bias_ = !bias.constant;
      if (!bias_) std::memcpy(packer.bytes.data() + packer.bias_at, bias.constant.data<float>(), bias.constant.bytes());
    }
    packed_ = Buffer::kept(packer.bytes.size());
    packed_.upload(packer.bytes.data(), packer.bytes.size());
    const Address at = packed_.address();
    params_.weights = at, params_.scales = at + static_cast<Address>(packer.scales_at);
    params_.zeros = at + static_cast<Address>(packer.zeros_at);
    params_.factors = at + static_cast<Address>(packer.factors_at);
    if (has(problem, slots::bias)) params_.bias = at + static_cast<Address>(packer.bias_at);
    place(problem);
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    params_.m = number(form.m), params_.n = number(form.n), params_.k = number(form.k);
    params_.tiles = number(ceil_div(form.n, tile)), params_.groups = number(form.groups(loads));
    const ops::Epilogue epilogue = conv_epilogue(problem);
    params_.alpha = epilogue.alpha, params_.beta = epilogue.beta;
    grid_ = {ceil_div(params_.tiles, warps / split * tiles), ceil_div(form.m, columns * 8 / form.parts()), 1,
             number(warps * 32), 0};
  }
  bool reads(size_t input) const override {
    return input == slots::data || input == slots::residual || (bias_ && input == slots::bias);
  }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[slots::data], params.y = at.outputs[0];
    if (residual_) params.residual = at.inputs[slots::residual];
    if (bias_) params.bias = at.inputs[slots::bias];
    launch(device_, function_, grid_, at, params);
  }

 private:
  /// The axes before the last, of which there are three with those of size 1.
  void place(const Problem& problem) {
    const Operand &x = problem.inputs[slots::data], &y = problem.outputs[0];
    const size_t axes = x.dims.rank() - 1;
    int64_t sizes[3] = {1, 1, 1};
    for (size_t axis = 0; axis < axes; ++axis) {
      const size_t to = 3 - axes + axis;
      sizes[to] = x.dims[axis];
      params_.xs[to] = x.strides[axis], params_.ys[to] = y.strides[axis];
      if (residual_) params_.rs[to] = problem.inputs[slots::residual].strides[axis];
    }
    params_.second = static_cast<int>(sizes[1]), params_.third = static_cast<int>(sizes[2]);
  }

  Device& device_;
  Function function_;
  Buffer packed_;
  bool residual_, bias_ = false;
  Params params_{};
  Grid grid_;
};

const KernelRegistrar registered({"tenon:WeightOnlyMatMul", "rows", 0, refuses, tactics, make_step<WeightOnlyStep>});

}  // namespace
}  // namespace tenon::cuda::weight_only

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/attention/attention_wgmma_params.h"
#include "backends/cuda/attention/attention.h"
#include "backends/cuda/convolution/hopper.h"

namespace tenon::cuda::attention_wgmma {
namespace {

using Params = AttentionWgmmaParams;

/// The macros of attention_wgmma.cu.
struct Form {
  int keys, one, warpgroups, per, blocks = 1;
};

constexpr int stages = 2, most_keys = 256;
constexpr int64_t queries_of_tile = 64, most_together = 8;  // tiles of queries

int64_t round_up(int64_t value, int64_t to) { return ceil_div(value, to) * to; }
int64_t rows_of(const Operand& operand) { return operand.dims[operand.dims.rank() - 2]; }
/// Columns that lie together in shared memory.
int slab_of(const Operand& operand) {
  for (const int slab : {64, 32})
    if (operand.dims.back() % slab == 0) return slab;
  return 16;
}

/// KeptMma<width>: D[64 x width] += A[64 x 16] * B[16 x width], A in registers, B in shared memory with its width
/// contiguous.
std::string kept_product_text(int64_t width, DType type) {
  const std::string name = type == DType::bf16 ? "bf16" : "f16", w = std::to_string(width);
  const int64_t sums = width / 2;
  std::string numbers, operands;
  for (int64_t at = 0; at < sums; ++at) {
    numbers += (at ? ", %" : "%") + std::to_string(at);
    operands += (at ? ", \"+f\"(d[" : "\"+f\"(d[") + std::to_string(at) + "])";
  }
  const auto operand = [&](int64_t at) { return "%" + std::to_string(sums + at); };
  return "template <int WIDTH> struct KeptMma;\ntemplate <> struct KeptMma<" + w +
         "> {\n  static __device__ __forceinline__ void run(float (&d)[" + std::to_string(sums) +
         "], const u32 (&a)[4], u64 b, int add) {\n    asm volatile(\"{.reg .pred p; setp.ne.b32 p, " + operand(5) +
         ", 0; wgmma.mma_async.sync.aligned.m64n" + w + "k16.f32." + name + "." + name + " {" + numbers + "}, {" +
         operand(0) + ", " + operand(1) + ", " + operand(2) + ", " + operand(3) + "}, " + operand(4) +
         ", p, 1, 1, 1;}\"\n      : " + operands +
         " : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b), \"r\"(add));\n  }\n};\n";
}

Reason refuses_operands(const Problem& problem, const Properties& properties) {
  if (properties.capability() != 90 || !driver().TensorMapEncodeTiled) return {Reason::capability, "it", "9.0"};
  if (!is_16_bit(problem.outputs[0].dtype)) return {Reason::element_type, "elements", "f16 or bf16"};
  if (const Reason reason = refuses_attention(problem)) return reason;
  for (const Operand* operand : {&problem.inputs[0], &problem.inputs[1], &problem.inputs[2], &problem.outputs[0]}) {
    if (operand->dims.back() % 16) return {Reason::not_multiple, "columns", 16};
    if (!in_chunks(*operand, 8)) return {Reason::unaligned, "rows"};
    for (size_t axis = 0; axis < operand->dims.rank(); ++axis)
      if (operand->dims[axis] > 1 && operand->strides[axis] <= 0) return {Reason::broadcast, "an operand"};
  }
  return {};
}

int64_t shared_of(const Problem& problem, const Form& form) {
  const int64_t d = problem.inputs[0].dims.back(), e = problem.inputs[2].dims.back();
  return stages * (round_up(form.keys * d * 2, 1024) + round_up(form.keys * e * 2, 1024)) +
         form.warpgroups * queries_of_tile * (2 * d + e) * 2 + 1024;
}

std::vector<Form> forms_of(const Problem& problem, const Properties& properties) {
  const int64_t n = rows_of(problem.inputs[1]), tiles = ceil_div(rows_of(problem.inputs[0]), queries_of_tile);
  std::vector<Form> list;
  const auto add = [&](const Form& form) {
    if ((shared_of(problem, form) + 1024) * form.blocks <= properties.shared_bytes + 1024) list.push_back(form);
  };
  if (n <= most_keys) {
    const auto keys = static_cast<int>(round_up(n, 16)), whole = static_cast<int>(std::min(tiles, most_together));
    if (whole > 2 && keys <= 208) add({keys, 1, 3, whole});
    if (whole > 2) add({keys, 1, 2, whole});
    if (tiles > 1) add({keys, 1, 2, 2});
    if (keys <= 128) add({keys, 1, 1, whole, 2});
  } else {
    // The tiles that leave the least of the keys over, and usual ones.
    const auto even = static_cast<int>(round_up(ceil_div(n, ceil_div(n, 176)), 16));
    if (even != 128) add({even, 0, 2, 2});
    add({128, 0, 2, 2});
    add({128, 0, 3, 3});
  }
  return list;
}

Reason refuses(const Problem& problem, const Properties& properties) {
  if (const Reason reason = refuses_operands(problem, properties)) return reason;
  return forms_of(problem, properties).empty() ? Reason(Reason::no_tile) : Reason();
}

Tactic tactic_of(const Problem& problem, const Form& form) {
  const int64_t d = problem.inputs[0].dims.back(), e = problem.inputs[2].dims.back();
  const DType type = problem.outputs[0].dtype;
  Source source{"attention_wgmma.cu", {}, ""};
  source.defines = {define_type("ELEMENT", type),
                    define("BF16", type == DType::bf16),
                    define("BYTES", 0),
                    define("DK", d),
                    define("DV", e),
                    define("SD", slab_of(problem.inputs[0])),
                    define("SE", slab_of(problem.inputs[2])),
                    define("KEYS", form.keys),
                    define("COUNT", form.one ? rows_of(problem.inputs[1]) : 0),
                    define("NWG", form.warpgroups),
                    define("PER", form.per),
                    define("STAGES", stages),
                    define("BLOCKS", form.blocks),
                    define("MASK", has_mask(problem)),
                    define("NAN_TO_ZERO", problem.node->integer("nan_to_zero", 0) != 0),
                    define_expression("ACT", conv_epilogue(problem).activation)};
  source.text = "template <int WIDTH> struct Mma;\n" + product_text(form.keys, type, false) +
                product_text(form.keys / 2, type, false) + kept_product_text(e, type) +
                std::string(kernel_text(source.file));
  std::string name = "wgmma " + std::to_string(64 * form.warpgroups) + "x" + std::to_string(form.keys);
  if (form.per > form.warpgroups) name += " of " + std::to_string(64 * form.per);
  return {name, {source}, {form.keys, form.one, form.warpgroups, form.per, form.blocks}};
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  std::vector<Tactic> list;
  for (const Form& form : forms_of(problem, properties)) list.push_back(tactic_of(problem, form));
  return list;
}

class AttentionWgmmaStep : public Step {
 public:
  AttentionWgmmaStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        mask_(has_mask(problem)),
        form_{tactic.numbers[0], tactic.numbers[1], tactic.numbers[2], tactic.numbers[3], tactic.numbers[4]} {
    const std::vector<int> meta = device.constants(tactic.sources[0], "meta");
    function_ = device.function(tactic.sources[0], "attention_wgmma", meta[0]);
    for (const size_t at : {0, 1, 2}) operands_.push_back(problem.inputs[at]);
    operands_.push_back(problem.outputs[0]);
    const Dims& dims = problem.outputs[0].dims;
    const size_t rank = dims.rank();
    if (mask_) params_.mask_side = side_of(problem.inputs[3]), params_.masks = masks_of(problem);
    params_.share = heads_for_one(problem);
    params_.heads = rank > 2 ? static_cast<int>(dims[rank - 3]) : 1;
    params_.m = static_cast<int>(dims[rank - 2]);
    params_.n = static_cast<int>(rows_of(problem.inputs[1]));
    params_.scale = problem.node->real("scale", 1);
    const ops::Epilogue epilogue = conv_epilogue(problem);
    params_.alpha = epilogue.alpha, params_.beta = epilogue.beta;
    params_.groups = static_cast<int>(ceil_div(params_.m, queries_of_tile * form_.per));
    params_.items = static_cast<int>(params_.groups * params_.heads * (rank > 3 ? dims[0] : 1));
    const int64_t blocks = int64_t{device.properties().multiprocessors} * form_.blocks;
    grid_ = {std::min<int64_t>(blocks, params_.items), 1, 1, meta[1], meta[0]};
  }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.q = map(operands_[0], at.inputs[0], queries_of_tile), params.k = map(operands_[1], at.inputs[1], form_.keys);
    params.v = map(operands_[2], at.inputs[2], form_.keys),
    params.y = map(operands_[3], at.outputs[0], queries_of_tile);
    if (mask_) params.mask = at.inputs[3];
    launch(device_, function_, grid_, at, params);
  }

 private:
  static TensorMap map(const Operand& operand, Address data, int64_t rows) {
    const Dims& dims = operand.dims;
    const size_t rank = dims.rank();
    const Side side = side_of(operand);
    // An axis of one has any stride.
    const auto step = [](int64_t stride) { return std::max<int64_t>(stride, 8); };
    return tiled_map(data, operand.dtype,
                     {dims.back(), rows_of(operand), rank > 2 ? dims[rank - 3] : 1, rank > 3 ? dims[0] : 1},
                     {1, step(side.row), step(side.batch[1]), step(side.batch[0])},
                     {slab_of(operand), static_cast<int>(rows), 1, 1});
  }

  Device& device_;
  Function function_;
  bool mask_;
  Form form_;
  std::vector<Operand> operands_;  // queries, keys, values, result
  Params params_{};
  Grid grid_;
};

const KernelRegistrar registered({"tenon:DotAttention", "attention wgmma", 2, refuses, tactics,
                                  make_step<AttentionWgmmaStep>});

}  // namespace
}  // namespace tenon::cuda::attention_wgmma

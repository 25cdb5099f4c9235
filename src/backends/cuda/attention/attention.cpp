// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/attention/attention_params.h"
#include "backends/cuda/attention/attention.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda {
namespace {

constexpr int64_t most_columns = 160, most_of_values = 128, most_blocks = 65535;
constexpr int least_capability = 80;  // of tensor cores for all types, and of copies to shared memory

using Params = AttentionParams;

}  // namespace

bool has_mask(const Problem& problem) { return problem.inputs.size() > 3 && problem.inputs[3]; }

int masks_of(const Problem& problem) {
  const Dims& mask = problem.inputs[3].dims;
  return mask.rank() == 4 ? static_cast<int>(std::max<int64_t>(mask[0], 1)) : 1;
}

Side side_of(const Operand& operand) {
  int64_t strides[4] = {};
  const size_t rank = operand.dims.rank();
  for (size_t at = 0; at < rank; ++at)
    if (operand.dims[at] != 1) strides[at + 4 - rank] = operand.strides[at];
  return {{strides[0], strides[1]}, strides[2], strides[3]};
}

int heads_for_one(const Problem& problem) {
  const Dims &q = problem.inputs[0].dims, &k = problem.inputs[1].dims;
  return q.rank() > 2 ? static_cast<int>(q[q.rank() - 3] / k[k.rank() - 3]) : 1;
}

Reason refuses_attention(const Problem& problem) {
  const Operand& y = problem.outputs[0];
  for (size_t at = 0; at < 3; ++at) {
    if (problem.inputs[at].dtype != y.dtype) return Reason::mixed_types;
    if (problem.inputs[at].dims.rank() < 2 || problem.inputs[at].dims.rank() > 4)
      return {Reason::too_many, 2, "axes of a batch"};
    const int64_t most = at < 2 ? most_columns : most_of_values;
    if (problem.inputs[at].dims.back() > most) return {Reason::too_many, most, "columns"};
  }
  if (!(problem.node->real("scale", 1) > 0)) return {Reason::scales, "positive"};
  if (has_mask(problem) && problem.inputs[3].dtype != DType::f32) return {Reason::element_type, "the mask", "f32"};
  const size_t rank = y.dims.rank();
  const int64_t m = y.dims[rank - 2], n = problem.inputs[1].dims[rank - 2];
  if (n == 0 || problem.inputs[0].dims.back() == 0 || problem.inputs[1].dims.elements() == 0) return Reason::empty;
  const int64_t rows = y.dims.back() ? y.dims.elements() / y.dims.back() : 0;
  if (m >= int64_t{1} << 30 || n >= int64_t{1} << 30 || rows / std::max<int64_t>(m, 1) > most_blocks)
    return Reason::too_large;
  return {};
}

bool in_chunks(const Operand& operand, int64_t chunk) {
  const Side side = side_of(operand);
  return operand.aligned && (side.column == 1 || operand.dims.back() == 1) && operand.dims.back() % chunk == 0 &&
         side.row % chunk == 0 && side.batch[0] % chunk == 0 && side.batch[1] % chunk == 0;
}

namespace {

/// Operands of f32, which are divided into numbers of tf32 or rounded to them.
bool is_wide(const Problem& problem) { return problem.outputs[0].dtype == DType::f32; }

/// What all kernels are told.
Source source_of(const std::vector<std::string>& files, const Problem& problem, int rows, int keys, int threads,
                 bool chunked) {
  Source source = source_from(files);
  source.defines = {define_type("ELEMENT", problem.outputs[0].dtype),
                    define("DK", problem.inputs[0].dims.back()),
                    define("DV", problem.inputs[2].dims.back()),
                    define("ROWS", rows),
                    define("KEYS", keys),
                    define("THREADS", threads),
                    define("CHUNKED", chunked),
                    define("MASK", has_mask(problem)),
                    define("NAN_TO_ZERO", problem.node->integer("nan_to_zero", 0) != 0),
                    define_expression("ACT", conv_epilogue(problem).activation)};
  return source;
}

/// Warps beside each other along queries, groups of them along keys, keys of a group at a time.
struct Form {
  int rows, parts, keys;
};

int64_t shared_of(const Problem& problem, const Form& form) {
  const int64_t step = is_wide(problem) ? 8 : 16, bytes = is_wide(problem) ? 4 : 2;
  const auto pitch = [&](size_t input) {
    return ceil_div(problem.inputs[input].dims.back(), step) * step + 16 / bytes;
  };
  return bytes * (16 * form.rows * pitch(0) + 2 * form.keys * form.parts * (pitch(1) + pitch(2)));
}

/// The usual ones, and those whose tiles leave the least of the keys over.
std::vector<Form> forms_of(const Problem& problem) {
  // Operands of f32 take more registers, twice as many where they are divided.
  if (is_wide(problem) && !problem.tf32)
    return {{4, 1, 32}, {2, 2, 32}, {1, 4, 32}, {2, 4, 16}, {8, 1, 32}, {4, 2, 16}, {2, 1, 32}};
  if (is_wide(problem))
    return {{4, 1, 32}, {4, 1, 64}, {2, 2, 32}, {1, 4, 32}, {2, 4, 32}, {8, 1, 32}, {4, 2, 32}, {2, 1, 32}};
  std::vector<Form> forms = {{4, 1, 64}, {2, 2, 32}, {1, 4, 32}, {2, 4, 32},
                             {4, 2, 32}, {8, 1, 64}, {2, 1, 64}, {1, 2, 64}};
  const Dims& keys = problem.inputs[1].dims;
  const int64_t n = keys[keys.rank() - 2];
  for (int64_t tiles = 1; tiles <= 8; ++tiles) {
    const auto size = static_cast<int>(ceil_div(ceil_div(n, tiles), 16) * 16);
    if (size < 48 || size > 128 || size == 64) continue;
    if (size <= 112) forms.push_back({4, 1, size}), forms.push_back({2, 1, size});
    forms.push_back({7, 1, size});
    break;
  }
  return forms;
}

Reason refuses(const Problem& problem, const Properties& properties) {
  if (properties.capability() < least_capability) return {Reason::capability, "it", "8.0"};
  if (!is_real(problem.outputs[0].dtype)) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (is_wide(problem) && problem.strict && !problem.tf32) return {Reason::strict, "f32"};
  if (const Reason reason = refuses_attention(problem)) return reason;
  const std::vector<Form> forms = forms_of(problem);
  const bool any = std::any_of(forms.begin(), forms.end(),
                               [&](const Form& form) { return shared_of(problem, form) <= properties.shared_bytes; });
  return any ? Reason() : Reason(Reason::no_tile);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  const bool wide = is_wide(problem);
  const int64_t chunk = wide ? 4 : 8;
  const bool chunked =
      in_chunks(problem.inputs[0], chunk) && in_chunks(problem.inputs[1], chunk) && in_chunks(problem.inputs[2], chunk);
  const std::string prefix = !wide ? "attention " : problem.tf32 ? "attention tf32 " : "attention 3xtf32 ";
  std::vector<Tactic> list;
  for (const Form& form : forms_of(problem)) {
    if (shared_of(problem, form) > properties.shared_bytes) continue;
    std::vector<std::string> files{"attention.cuh", "attention_f16.cuh", "attention.cu"};
    if (wide) files = {"attention.cuh", "tf32.cuh", "attention_tf32.cuh", "attention.cu"};
    Source source = source_of(files, problem, form.rows, form.keys, 32 * form.rows * form.parts, chunked);
    source.defines.push_back(define("PARTS", form.parts));
    source.defines.push_back(define("PAIRS", in_chunks(problem.outputs[0], 2)));
    if (wide) source.defines.push_back(define("DIVIDED", !problem.tf32));
    list.push_back({prefix + std::to_string(16 * form.rows) + "x" + std::to_string(form.keys) +
                        (form.parts > 1 ? " of " + std::to_string(form.parts) : ""),
                    {source},
                    {form.rows, form.parts, form.keys}});
  }
  return list;
}

/// A block takes `rows` queries, and with `splits` above 1 a part of the keys.
class AttentionStep : public Step {
 public:
  AttentionStep(const Problem& problem, Device& device, Function function, int64_t rows, const Grid& block,
                int splits = 1)
      : device_(device), function_(function), mask_(has_mask(problem)), grid_(block) {
    const Dims& dims = problem.outputs[0].dims;
    const size_t rank = dims.rank();
    params_.q_side = side_of(problem.inputs[0]), params_.k_side = side_of(problem.inputs[1]);
    params_.v_side = side_of(problem.inputs[2]), params_.y_side = side_of(problem.outputs[0]);
    if (mask_) params_.mask_side = side_of(problem.inputs[3]), params_.masks = masks_of(problem);
    params_.share = heads_for_one(problem);
    params_.heads = rank > 2 ? static_cast<int>(dims[rank - 3]) : 1;
    params_.m = static_cast<int>(dims[rank - 2]);
    params_.n = static_cast<int>(problem.inputs[1].dims[rank - 2]);
    params_.scale = problem.node->real("scale", 1);
    const ops::Epilogue epilogue = conv_epilogue(problem);
    params_.alpha = epilogue.alpha, params_.beta = epilogue.beta;
    grid_.x = ceil_div(params_.m, rows), grid_.y = params_.heads * (rank > 3 ? dims[0] : 1), grid_.z = splits;
    params_.splits = splits;
    if (splits == 1) return;
    const auto count = static_cast<size_t>(grid_.x * grid_.y);
    workspace_ = count * static_cast<size_t>(splits) * static_cast<size_t>(dims.back() + 2) * sizeof(float);
    counters_ = Buffer::kept(count * sizeof(uint32_t));
    counters_.clear();
    params_.counters = counters_.address();
  }
  size_t workspace_bytes() const override { return workspace_; }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.q = at.inputs[0], params.k = at.inputs[1], params.v = at.inputs[2], params.y = at.outputs[0];
    params.partial = at.workspace;
    if (mask_) params.mask = at.inputs[3];
    launch(device_, function_, grid_, at, params);
  }

 private:
  Device& device_;
  Function function_;
  bool mask_;
  Params params_{};
  Grid grid_;
  size_t workspace_ = 0;
  Buffer counters_;
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  const Form form{tactic.numbers[0], tactic.numbers[1], tactic.numbers[2]};
  const auto shared = static_cast<int>(shared_of(problem, form));
  const Function function = device.function(tactic.sources[0], "attention", shared);
  return std::make_unique<AttentionStep>(problem, device, function, 16 * form.rows,
                                         Grid{1, 1, 1, 32 * form.rows * form.parts, shared});
}

const KernelRegistrar registered({"tenon:DotAttention", "attention", 1, refuses, tactics, make});

// ---- on plain units

/// Queries of each of 8 half warps, and keys at a time.
struct PlainForm {
  int rows, keys;
};
constexpr int plain_threads = 128;
constexpr PlainForm plain_forms[] = {{4, 64}, {2, 64}, {4, 32}, {2, 32}};

int64_t shared_of(const Problem& problem, const PlainForm& form) {
  const int64_t keys = ceil_div(problem.inputs[0].dims.back(), 4) * 4 + 4,
                values = ceil_div(problem.inputs[2].dims.back(), 16) * 16 + 4;
  return 4 * (8 * form.rows * (keys + form.keys + 4) + 2 * form.keys * (keys + values));
}

Reason refuses_plain(const Problem& problem, const Properties& properties) {
  // Tensor cores have those of 16 bits, where a GPU has these.
  const DType type = problem.outputs[0].dtype;
  if (!is_real(type) || (type != DType::f32 && properties.capability() >= least_capability))
    return {Reason::element_type, "elements", "f32"};
  if (const Reason reason = refuses_attention(problem)) return reason;
  return shared_of(problem, plain_forms[3]) > properties.shared_bytes ? Reason(Reason::no_tile) : Reason();
}

std::vector<Tactic> plain_tactics(const Problem& problem, const Properties& properties) {
  const bool chunked = properties.capability() >= least_capability && in_chunks(problem.inputs[0], 4) &&
                       in_chunks(problem.inputs[1], 4) && in_chunks(problem.inputs[2], 4);
  std::vector<Tactic> list;
  for (const PlainForm& form : plain_forms) {
    if (shared_of(problem, form) > properties.shared_bytes) continue;
    list.push_back(
        {"attention f32 " + std::to_string(8 * form.rows) + "x" + std::to_string(form.keys),
         {source_of({"attention.cuh", "attention_f32.cu"}, problem, form.rows, form.keys, plain_threads, chunked)},
         {form.rows, form.keys}});
  }
  return list;
}

std::unique_ptr<Step> make_plain(const Problem& problem, Device& device, const Tactic& tactic) {
  const PlainForm form{tactic.numbers[0], tactic.numbers[1]};
  const auto shared = static_cast<int>(shared_of(problem, form));
  const Function function = device.function(tactic.sources[0], "attention_f32", shared);
  return std::make_unique<AttentionStep>(problem, device, function, 8 * form.rows,
                                         Grid{1, 1, 1, plain_threads, shared});
}

const KernelRegistrar plain({"tenon:DotAttention", "attention f32", 0, refuses_plain, plain_tactics, make_plain});

// ---- few queries

constexpr int64_t most_queries = 8;
/// Threads of a block, keys of a group of lanes at a time, parts of all keys.
struct RowForm {
  int threads, keys, splits;
};

std::vector<RowForm> row_forms(const Problem& problem, const Properties& properties) {
  constexpr int64_t fewest_keys = 64;  // of a part
  std::vector<RowForm> forms = {{512, 4, 1}, {256, 4, 1}, {512, 2, 1}, {128, 4, 1}};
  const Dims &y = problem.outputs[0].dims, &k = problem.inputs[1].dims;
  const int64_t rows = y.elements() / std::max<int64_t>(1, y.back());
  for (const int splits : {2, 4, 8, 16}) {
    if (k[k.rank() - 2] < fewest_keys * splits || rows * splits > 2 * properties.multiprocessors) break;
    forms.push_back({256, 4, splits}), forms.push_back({512, 4, splits});
  }
  return forms;
}

int64_t row_chunk(const Problem& problem) { return is_wide(problem) ? 4 : 8; }

/// Lanes that share a key: a power of two.
int row_lanes(const Problem& problem) {
  const int64_t columns = std::max(problem.inputs[0].dims.back(), problem.inputs[2].dims.back());
  return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(ceil_div(columns, row_chunk(problem)))));
}

Reason refuses_row(const Problem& problem, const Properties&) {
  if (!is_real(problem.outputs[0].dtype)) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (const Reason reason = refuses_attention(problem)) return reason;
  const Dims& dims = problem.outputs[0].dims;
  if (dims[dims.rank() - 2] > most_queries) return {Reason::too_many, most_queries, "queries"};
  for (size_t at = 0; at < 3; ++at)
    if (!in_chunks(problem.inputs[at], row_chunk(problem))) return {Reason::unaligned, "rows"};
  return row_lanes(problem) > 32 ? Reason(Reason::no_tile) : Reason();
}

std::vector<Tactic> row_tactics(const Problem& problem, const Properties& properties) {
  std::vector<Tactic> list;
  for (const auto& [threads, keys, splits] : row_forms(problem, properties)) {
    Source source = source_of({"attention.cuh", "attention_row.cu"}, problem, 1, keys, threads, true);
    source.defines.push_back(define("LANES", row_lanes(problem)));
    source.defines.push_back(define("SPLIT", splits > 1));
    list.push_back({"attention row " + std::to_string(threads) + "x" + std::to_string(keys) +
                        (splits > 1 ? " of " + std::to_string(splits) : ""),
                    {source},
                    {threads, splits}});
  }
  return list;
}

std::unique_ptr<Step> make_row(const Problem& problem, Device& device, const Tactic& tactic) {
  const Function function = device.function(tactic.sources[0], "attention_row");
  return std::make_unique<AttentionStep>(problem, device, function, 1, Grid{1, 1, 1, tactic.numbers[0], 0},
                                         tactic.numbers[1]);
}

const KernelRegistrar row({"tenon:DotAttention", "attention row", 3, refuses_row, row_tactics, make_row});

}  // namespace
}  // namespace tenon::cuda

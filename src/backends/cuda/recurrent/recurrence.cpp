// SPDX-License-Identifier: Apache-2.0
#include "ops/recurrence.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/recurrent/recurrence_params.h"

namespace tenon::cuda::recurrence {
namespace {

using Params = RecurrenceParams;

constexpr int64_t most_threads = 512;
constexpr int64_t held_bytes = 256;         // of weights in a thread's registers
constexpr int64_t static_bytes = 48 << 10;  // of shared memory that a kernel may have without asking
constexpr int64_t least_units = 8;          // of a block of a cluster
constexpr int64_t most_groups = 65535;

bool has(const Problem& problem, size_t at) { return at < problem.inputs.size() && problem.inputs[at]; }

struct Sizes {
  int64_t sequence, batch, directions, hidden, gates, element;
};
Sizes sizes_of(const Problem& problem) {
  const Dims &x = problem.inputs[0].dims, &r = problem.inputs[1].dims;
  return {x[0],
          x[1],
          r[0],
          r[2],
          ops::gates_of_cell(*problem.node),
          static_cast<int64_t>(size_of(problem.inputs[0].dtype))};
}

/// How rows of R are cut: as recurrence.cu has them.
struct Form {
  int64_t cluster, batch, units, slots, slices, rows_each, depth, held, shared;  // shared: bytes asked for; -1: none

  int64_t threads() const { return slots * slices; }
  int64_t own_bytes() const { return (2 * slices * depth + slices * slots * rows_each) * batch * 4; }
};

Form form_of(const Sizes& sizes, const Properties& properties, int64_t cluster, int64_t batch) {
  Form form{cluster, batch, ceil_div(sizes.hidden, cluster), 0, 0, 0, 0, 0, -1};
  const int64_t vector = 16 / sizes.element, rows = ceil_div(sizes.gates * form.units, int64_t{32}) * 32;
  form.rows_each = ceil_div(rows, most_threads);
  form.slots = ceil_div(ceil_div(rows, form.rows_each), int64_t{32}) * 32;
  form.slices = std::min(std::max<int64_t>(most_threads / form.slots, 1), ceil_div(sizes.hidden, vector));
  form.depth = ceil_div(ceil_div(sizes.hidden, form.slices), vector) * vector;
  form.held = std::min(form.depth, held_bytes / sizes.element / form.rows_each / vector * vector);
  const int64_t bytes = form.rows_each * (form.depth - form.held) * sizes.element * form.threads();
  if (bytes <= properties.shared_bytes - form.own_bytes() - 1024) form.shared = bytes;
  return form;
}

std::vector<Form> forms_of(const Problem& problem, const Properties& properties) {
  const Sizes sizes = sizes_of(problem);
  std::vector<Form> list;
  for (const int64_t cluster : {8, 4, 2, 1}) {
    if (cluster > 1 && (properties.capability() < 90 || ceil_div(sizes.hidden, cluster) < least_units)) continue;
    int tried = 0;
    for (const int64_t batch : {1, 2, 4, 8}) {
      const Form form = form_of(sizes, properties, cluster, batch);
      if (form.own_bytes() > static_bytes || (batch > 1 && batch / 2 >= sizes.batch)) break;
      const int64_t blocks = sizes.directions * ceil_div(sizes.batch, batch) * cluster;
      if (blocks > properties.multiprocessors && batch < 8 && 2 * form.own_bytes() <= static_bytes) continue;
      list.push_back(form);
      if (++tried == 2) break;
    }
  }
  return list;
}

/// Of the first states, which may be f32 or of the type of the gates.
DType state_type(const Problem& problem) {
  for (size_t at : {size_t{3}, size_t{4}})
    if (has(problem, at)) return is_real(problem.inputs[at].dtype) ? problem.inputs[at].dtype : DType::f32;
  return DType::f32;
}

Reason refuses(const Problem& problem, const Properties& properties) {
  const DType type = problem.inputs[0].dtype;
  if (!is_real(type)) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (!problem.inputs[1].constant) return {Reason::not_constant, "the weights"};
  for (size_t at = 0; at < problem.inputs.size(); ++at) {
    if (!has(problem, at)) continue;
    const Operand& operand = problem.inputs[at];
    const bool wide = at == 1 || at == 2;
    if (operand.dtype != (wide ? DType::f32 : at == 0 ? type : state_type(problem)))
      return {Reason::element_type, wide ? "weights" : "states", "of one type"};
    if (!operand.dense()) return {Reason::view, "an operand"};
  }
  for (const Operand& operand : problem.outputs) {
    if (!operand) continue;
    if (operand.dtype != type) return {Reason::element_type, "results", "as the gates"};
    if (!operand.dense()) return {Reason::view, "a result"};
  }
  const Sizes sizes = sizes_of(problem);
  if (sizes.sequence * sizes.batch * sizes.hidden == 0) return Reason::empty;
  if (sizes.batch > most_groups) return {Reason::too_many, most_groups, "sequences"};
  return forms_of(problem, properties).empty() ? Reason(Reason::too_large) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  const Sizes sizes = sizes_of(problem);
  std::vector<Tactic> list;
  for (const Form& form : forms_of(problem, properties)) {
    Source source{"recurrence.cu", {}, ""};
    source.defines = {define_type("ELEMENT", problem.inputs[0].dtype),
                      define_type("STATE", state_type(problem)),
                      define("GATES", sizes.gates),
                      define("HIDDEN", sizes.hidden),
                      define("CLUSTER", form.cluster),
                      define("BATCH", form.batch),
                      define("UNITS", form.units),
                      define("SLOTS", form.slots),
                      define("SLICES", form.slices),
                      define("ROWS_EACH", form.rows_each),
                      define("DEPTH", form.depth),
                      define("HELD", form.held),
                      define("SHARED", form.shared >= 0)};
    list.push_back({"steps of " + std::to_string(form.batch) + " in " + std::to_string(form.cluster),
                    {source},
                    {static_cast<int>(form.cluster), static_cast<int>(form.batch)}});
  }
  return list;
}

/// R in the type of the gates, its rows filled up to whole vectors.
std::vector<std::byte> packed_weights(const Problem& problem, const Sizes& sizes) {
  const DType type = problem.inputs[0].dtype;
  const float* from = problem.inputs[1].constant.data<float>();
  const int64_t rows = sizes.directions * sizes.gates * sizes.hidden, vector = 16 / sizes.element;
  const int64_t pitch = ceil_div(sizes.hidden, vector) * vector;
  std::vector<std::byte> packed(static_cast<size_t>(rows * pitch * sizes.element));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t k = 0; k < sizes.hidden; ++k) {
      const float value = from[row * sizes.hidden + k];
      std::byte* const to = packed.data() + (row * pitch + k) * sizes.element;
      const uint16_t bits = type == DType::f32 ? 0 : bits16_of(value, type);
      std::memcpy(to, type == DType::f32 ? static_cast<const void*>(&value) : &bits,
                  static_cast<size_t>(sizes.element));
    }
  return packed;
}

class RecurrenceStep : public Step {
 public:
  RecurrenceStep(const Problem& problem, Device& device, const Tactic& tactic) : device_(device) {
    const Sizes sizes = sizes_of(problem);
    const Form form = form_of(sizes, device.properties(), tactic.numbers[0], tactic.numbers[1]);
    const int shared = static_cast<int>(std::max<int64_t>(form.shared, 0));
    function_ = device.function(tactic.sources[0], "recurrence", shared);
    const std::vector<std::byte> packed = packed_weights(problem, sizes);
    packed_ = Buffer::kept(packed.size());
    packed_.upload(packed.data(), packed.size());
    params_.weights = packed_.address();
    for (size_t at = 0; at < 5; ++at) has_[at] = has(problem, at);
    for (size_t at = 0; at < 3; ++at) gives_[at] = at < problem.outputs.size() && problem.outputs[at];
    params_.sequence = static_cast<int>(sizes.sequence), params_.batch = static_cast<int>(sizes.batch);
    params_.directions = static_cast<int>(sizes.directions);
    params_.reverse = problem.node->text("direction", "forward") == "reverse";
    grid_ = {sizes.directions * ceil_div(sizes.batch, form.batch) * form.cluster, 1, 1,
             static_cast<int>(form.threads()), shared};
  }
  bool reads(size_t input) const override { return input != 1; }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    const auto input = [&](size_t k) { return has_[k] ? at.inputs[k] : Address{}; };
    const auto output = [&](size_t k) { return gives_[k] ? at.outputs[k] : Address{}; };
    params.gates = at.inputs[0];
    params.bias = input(2), params.first = input(3), params.first_cell = input(4);
    params.y = output(0), params.last = output(1), params.last_cell = output(2);
    launch(device_, function_, grid_, at, params);
  }

 private:
  Device& device_;
  Function function_;
  Buffer packed_;
  bool has_[5], gives_[3];
  Params params_{};
  Grid grid_;
};

const KernelRegistrar registered({"tenon:Recurrence", "steps", 1, refuses, tactics, make_step<RecurrenceStep>});

}  // namespace
}  // namespace tenon::cuda::recurrence

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/movement/repeat_params.h"
#include "backends/cuda/movement/resize_params.h"
#include "backends/resize_axes.h"

#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda::resize {
namespace {

namespace resizing = ops::resizing;

using Params = ResizeParams;

constexpr size_t least_axes = 4, most_axes = 5, most_changes = 3;

/// The problem with axes of one element in front where it has fewer than four.
struct Space {
  std::vector<resizing::Axis> axes;
  Dims xs, ys;                  // strides in elements
  std::vector<size_t> changed;  // two or three axes; ones that do not change stand in where fewer do

  explicit Space(const Problem& problem) {
    const Operand &x = problem.inputs[0], &y = problem.outputs[0];
    for (size_t gap = x.dims.rank(); gap < least_axes; ++gap) axes.push_back({1, 1}), xs.push_back(0), ys.push_back(0);
    const auto own = backends::resize_axes(problem);
    for (size_t at = 0; at < own.size(); ++at)
      axes.push_back(own[at]), xs.push_back(x.strides[at]), ys.push_back(y.strides[at]);
    for (size_t axis = 0; axis < axes.size(); ++axis)
      if (axes[axis].in != axes[axis].out || axes[axis].scale != 1) changed.push_back(axis);
    for (size_t axis = 0; changed.size() < 2; ++axis)
      if (changed.empty() || changed[0] != axis) changed.push_back(axis);
  }
  size_t last() const { return axes.size() - 1; }
  bool changes(size_t axis) const { return std::find(changed.begin(), changed.end(), axis) != changed.end(); }
};

struct Table {
  size_t taps = 1;
  std::vector<int64_t> offsets;
  std::vector<float> weights;
};

Table table_of(const Problem& problem, const Space& space, size_t axis) {
  Table table;
  const auto all = resizing::taps_of(*problem.node, space.axes[axis]);
  for (const auto& taps : all) table.taps = std::max(table.taps, taps.index.size());
  for (const auto& taps : all)
    for (size_t k = 0; k < table.taps; ++k) {
      const bool used = k < taps.index.size();
      table.offsets.push_back(taps.index[used ? k : 0] * space.xs[axis]);
      table.weights.push_back(used ? static_cast<float>(taps.weight[k]) : 0.f);
    }
  return table;
}

int vector_of(const Problem& problem, const Space& space) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const size_t last = space.last();
  if (space.changes(last) || space.xs[last] != 1 || space.ys[last] != 1 || !x.aligned || !y.aligned) return 1;
  for (auto size = static_cast<int64_t>(16 / size_of(x.dtype)); size > 1; size /= 2) {
    bool fits = space.axes[last].out % size == 0;
    for (size_t at = 0; at < last; ++at) fits = fits && space.xs[at] % size == 0 && space.ys[at] % size == 0;
    if (fits) return static_cast<int>(size);
  }
  return 1;
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const bool bytes =
      (x.dtype == DType::u8 || x.dtype == DType::f8e4m3fn) && problem.node->text("mode", "nearest") == "nearest";
  if ((!is_real(x.dtype) && !bytes) || x.dtype != y.dtype)
    return {Reason::element_type, "elements", "f32, f16 or bf16, or of bytes where the nearest is taken"};
  if (x.dims.elements() == 0) return Reason::empty;
  if (x.dims.rank() > most_axes) return {Reason::too_many, most_axes, "axes"};
  for (size_t at = 1; at < problem.inputs.size(); ++at)
    if (problem.inputs[at] && !problem.inputs[at].constant) return {Reason::not_constant, "its sizes"};
  if (problem.node->text("coordinate_transformation_mode", "") == "tf_crop_and_resize")
    return {Reason::attribute, "coordinate_transformation_mode", "another than tf_crop_and_resize"};
  if (Space(problem).changed.size() > most_changes) return {Reason::too_many, most_changes, "axes that change"};
  return y.dims.elements() >= int64_t{1} << 31 ? Reason(Reason::too_large) : Reason();
}

/// How often every row and every column of channels last stands in the result; 0, 0 where that is not all it does.
std::pair<int, int> repeats_of(const Problem& problem, const Space& space) {
  constexpr int64_t most = 4, most_rows = 65535;
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (x.dims.rank() != 4 || space.changed != std::vector<size_t>{1, 2} || vector_of(problem, space) == 1) return {0, 0};
  int64_t factors[2];
  for (size_t at = 0; at < 2; ++at) {
    const size_t axis = space.changed[at];
    const int64_t factor = factors[at] = y.dims[axis] / x.dims[axis];
    const Table table = table_of(problem, space, axis);
    if (table.taps != 1 || factor < 1 || factor > most || y.dims[axis] != x.dims[axis] * factor) return {0, 0};
    for (int64_t i = 0; i < y.dims[axis]; ++i)
      if (table.offsets[static_cast<size_t>(i)] != i / factor * x.strides[axis]) return {0, 0};
  }
  if (x.dims[0] * x.dims[1] > most_rows) return {0, 0};
  return {static_cast<int>(factors[0]), static_cast<int>(factors[1])};
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const Space space(problem);
  std::vector<Tactic> list;
  if (const auto [rows, columns] = repeats_of(problem, space); rows > 0) {
    Source source{"repeat.cu", {}, ""};
    source.defines = {define_type("ELEMENT", problem.inputs[0].dtype), define("VEC", vector_of(problem, space)),
                      define("CHANNELS", problem.inputs[0].dims[3]), define("FH", rows), define("FW", columns)};
    list.push_back({"repeat", {source}, {1}});
  }
  Source source{"resize.cu", {}, ""};
  source.defines = {
      define_type("ELEMENT", problem.inputs[0].dtype), define("AXES", static_cast<int64_t>(space.axes.size())),
      define("CHANGED", static_cast<int64_t>(space.changed.size())), define("VEC", vector_of(problem, space))};
  for (size_t k = 0; k < space.changed.size(); ++k) {
    const std::string letter(1, static_cast<char>('A' + k));
    source.defines.push_back(define(("AXIS_" + letter).c_str(), static_cast<int64_t>(space.changed[k])));
    source.defines.push_back(
        define(("TAPS_" + letter).c_str(), static_cast<int64_t>(table_of(problem, space, space.changed[k]).taps)));
  }
  list.push_back({"taps", {source}, {}});
  return list;
}

class RepeatStep : public Step {
 public:
  RepeatStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "repeat")) {
    const Operand &x = problem.inputs[0], &y = problem.outputs[0];
    for (size_t at = 0; at < 3; ++at) params_.xs[at] = x.strides[at], params_.ys[at] = y.strides[at];
    params_.height = static_cast<unsigned>(x.dims[1]), params_.width = static_cast<unsigned>(x.dims[2]);
    const int64_t vectors = x.dims[3] / vector_of(problem, Space(problem));
    grid_ = {ceil_div(x.dims[2] * vectors, 128), x.dims[0] * x.dims[1], 1, 128, 0};
  }
  bool reads(size_t input) const override { return input == 0; }
  void enqueue(const Launch& at) const override {
    RepeatParams params = params_;
    params.x = at.inputs[0], params.y = at.outputs[0];
    launch(device_, function_, grid_, at, params);
  }

 private:
  Device& device_;
  Function function_;
  RepeatParams params_{};
  Grid grid_;
};

class ResizeStep : public Step {
 public:
  ResizeStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "resize")) {
    const Space space(problem);
    const int vector = vector_of(problem, space);
    std::vector<char> bytes;
    const auto add = [&](const auto& list) {
      const size_t begin = bytes.size();
      const auto* from = reinterpret_cast<const char*>(list.data());
      bytes.insert(bytes.end(), from, from + list.size() * sizeof list[0]);
      bytes.resize((bytes.size() + 15) / 16 * 16);
      return begin;
    };
    size_t offsets[most_changes] = {}, weights[most_changes] = {};
    for (size_t k = 0; k < space.changed.size(); ++k) {
      const Table table = table_of(problem, space, space.changed[k]);
      offsets[k] = add(table.offsets), weights[k] = add(table.weights);
    }
    tables_ = Buffer::kept(bytes.size());
    tables_.upload(bytes.data(), bytes.size());
    for (size_t k = 0; k < space.changed.size(); ++k)
      params_.offsets[k] = tables_.address() + offsets[k], params_.weights[k] = tables_.address() + weights[k];
    for (size_t at = 0; at <= space.last(); ++at) {
      params_.xs[at] = space.changes(at) ? 0 : space.xs[at];
      params_.ys[at] = space.ys[at];
      params_.dims[at] = static_cast<unsigned>(space.axes[at].out / (at == space.last() ? vector : 1));
    }
    params_.count = static_cast<unsigned>(problem.outputs[0].dims.elements() / vector);
    grid_ = {ceil_div(params_.count, 256), 1, 1, 256, 0};
  }
  bool reads(size_t input) const override { return input == 0; }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.outputs[0];
    launch(device_, function_, grid_, at, params);
  }

 private:
  Device& device_;
  Function function_;
  Buffer tables_;
  Params params_{};
  Grid grid_;
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  if (!tactic.numbers.empty()) return std::make_unique<RepeatStep>(problem, device, tactic);
  return std::make_unique<ResizeStep>(problem, device, tactic);
}

const KernelRegistrar registered({"Resize", "taps", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::resize

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "backends/cuda/reduction/group_norm_params.h"
#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda::group_norm {
namespace {

using Params = GroupNormParams;

constexpr int64_t most_lines = 65535, most_elements = int64_t{1} << 31;  // of an image
constexpr int64_t whole_bytes = 65536;     // of a line that one multiprocessor reads fast enough
constexpr int64_t side_bytes = 128;        // of neighbouring channels that the threads of a block read at once
constexpr int64_t most_side_by_side = 64;  // channels of a group whose threads stand side by side
constexpr int64_t most_early = 24;         // elements of scale and bias that a thread holds from the beginning
constexpr int64_t most_joined_again = 64;  // parts of a line that each block joins itself
constexpr size_t most_tactics = 3;         // of a kind

/// Sizes as the kernels see them; a line is what blocks share the statistics of.
struct Form {
  bool last, columns, shared;
  int vector, side;  // threads side by side along the channels
  int64_t images, channels, groups, group, plane, lines, units;
  int64_t all_lines() const { return images * lines; }
};

bool channels_last(const Problem& problem) {
  return problem.node->text("layout", "") == "NHWC" && problem.inputs[0].dims.rank() > 2;
}

/// By groups, or by columns of channels, which channels last allow where groups of them do.
Form form_of(const Problem& problem, bool columns) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  Form form{};
  form.last = channels_last(problem);
  form.images = x.dims[0];
  form.channels = x.dims[form.last ? x.dims.rank() - 1 : 1];
  form.groups = problem.node->integer("num_groups", form.channels);
  form.group = form.channels / form.groups;
  form.plane = x.dims.elements() / form.images / form.channels;
  form.columns = columns;
  form.shared = problem.inputs[1].dims.elements() != form.channels;
  const int64_t together = form.columns ? form.channels : form.last ? form.group : form.plane;
  bool aligned = x.aligned && y.aligned;
  for (const size_t at : {size_t{1}, size_t{2}}) aligned &= !form.last || form.shared || problem.inputs[at].aligned;
  form.vector = static_cast<int>(16 / size_of(x.dtype));
  while (form.vector > 1 && (!aligned || together % form.vector)) form.vector /= 2;
  form.side = 1;
  const int64_t vectors = form.channels / form.vector, bytes = form.vector * static_cast<int64_t>(size_of(x.dtype));
  const auto narrow = [&] {
    return form.side < vectors && (form.side * bytes < side_bytes || form.side * form.vector < form.group);
  };
  while (form.columns && form.side < 32 && narrow()) form.side *= 2;
  form.lines = form.columns ? ceil_div(vectors, form.side) : form.groups;
  form.units = form.columns ? form.plane : form.plane * form.group / form.vector;
  return form;
}

template <bool columns>
Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!is_real(x.dtype) || x.dtype != y.dtype) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (!x.dense() || !y.dense()) return {Reason::view, "an operand"};
  if (x.dims.rank() < 2 || x.dims.elements() == 0) return Reason::empty;
  const Form form = form_of(problem, columns);
  const bool beside = form.last && std::has_single_bit(static_cast<uint64_t>(form.group));
  if (columns && (!beside || form.group > form.side * form.vector || form.group > most_side_by_side))
    return {Reason::shape, "groups", "1, 2, 4 to 64 channels side by side"};
  if (!columns && form.last && form.group == 1) return {Reason::shape, "groups", "more than one channel"};
  for (size_t at : {size_t{1}, size_t{2}}) {
    const Operand& list = problem.inputs[at];
    if (list.dtype != DType::f32 || !list.dense()) return {Reason::element_type, "scale and bias", "f32"};
    if (list.dims.elements() != form.channels && list.dims.elements() != form.groups)
      return {Reason::shape, "scale and bias", "an entry for each channel or group"};
  }
  if (problem.inputs[1].dims.elements() != problem.inputs[2].dims.elements())
    return {Reason::shape, "scale and bias", "the same size"};
  if (x.dims.elements() / form.images >= most_elements) return Reason::too_large;
  return form.all_lines() > most_lines ? Reason(Reason::too_many, most_lines, "groups") : Reason();
}

int64_t parts_of(const Form& form, int64_t threads, int64_t each) {
  return ceil_div(form.units, threads / form.side * each);
}

Tactic tactic_of(const Problem& problem, const Form& form, int64_t threads, int64_t each, bool split) {
  const bool joined = split && parts_of(form, threads, each) > most_joined_again;
  const bool constant = problem.inputs[1].constant && problem.inputs[2].constant;
  Source source{"group_norm.cu", {}, ""};
  source.defines = {define_expression("ACT", ops::epilogue_of(*problem.node).activation),
                    define_type("ELEMENT", problem.inputs[0].dtype),
                    define("LAST", form.last),
                    define("SHARED", form.shared),
                    define("COLUMNS", form.columns),
                    define("VEC", form.vector),
                    define("LX", form.side),
                    define("GROUP", form.columns ? form.group : 1),
                    define("THREADS", threads),
                    define("EACH", each),
                    define("SPLIT", split),
                    define("JOINED", joined),
                    define("EARLY", constant && each * form.vector <= most_early)};
  const std::string name = std::string(form.columns ? "columns" : "groups") + (split ? " in parts of " : " of ");
  return {name + std::to_string(threads) + "x" + std::to_string(each),
          {source},
          {static_cast<int>(threads), static_cast<int>(each), split, joined}};
}

/// A block for each line, its threads holding as few vectors as they can or some more.
std::vector<Tactic> whole(const Problem& problem, const Form& form) {
  std::vector<Tactic> list;
  for (int64_t each = 1; each <= 8 && list.size() < most_tactics; each *= 2) {
    const int64_t threads = ceil_div(ceil_div(form.units, each) * form.side, 32) * 32;
    if (threads <= 1024) list.push_back(tactic_of(problem, form, threads, each, false));
    if (threads == 32) break;
  }
  return list;
}

/// Several blocks for each line: the largest that fill half of the multiprocessors, then smaller ones.
std::vector<Tactic> in_parts(const Problem& problem, const Form& form, const Properties& properties) {
  std::vector<Tactic> list;
  for (const auto& [threads, each] : {std::pair{256, 8}, {256, 4}, {256, 2}, {256, 1}, {128, 1}}) {
    const int64_t parts = parts_of(form, threads, each);
    const bool least = threads == 128, fills = 2 * form.all_lines() * parts >= properties.multiprocessors;
    if (parts > 1 && (fills || least) && list.size() < most_tactics)
      list.push_back(tactic_of(problem, form, threads, each, true));
  }
  return list;
}

template <bool columns>
std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  const Form form = form_of(problem, columns);
  std::vector<Tactic> one = whole(problem, form), several = in_parts(problem, form, properties);
  const int64_t bytes = form.units * form.side * form.vector * static_cast<int64_t>(size_of(problem.inputs[0].dtype));
  const bool whole_first = bytes <= whole_bytes || 2 * form.all_lines() >= properties.multiprocessors;
  std::vector<Tactic>&first = whole_first ? one : several, &then = whole_first ? several : one;
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

template <bool columns>
class GroupNormStep : public Step {
 public:
  GroupNormStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        split_(tactic.numbers[2]),
        joins_(tactic.numbers[3]),
        results_(device.function(tactic.sources[0], "group_norm")) {
    if (split_) sums_ = device.function(tactic.sources[0], "part_sums");
    if (joins_) joined_ = device.function(tactic.sources[0], "join_parts");
    const Form form = form_of(problem, columns);
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    params_.image = form.plane * form.channels;
    params_.channels = number(form.channels), params_.group = number(form.group);
    params_.lines = number(form.lines), params_.units = number(form.units);
    params_.plane = static_cast<u32>(std::max<int64_t>(1, form.plane / form.vector));
    params_.most = number(parts_of(form, tactic.numbers[0], tactic.numbers[1]));
    const ops::Epilogue epilogue = ops::epilogue_of(*problem.node);
    params_.alpha = epilogue.alpha, params_.beta = epilogue.beta;
    params_.epsilon = static_cast<float>(problem.node->real("epsilon", 1e-5f));
    grid_ = {params_.most, form.all_lines(), 1, tactic.numbers[0], 0};
    join_grid_ = {form.side, form.all_lines(), 1, tactic.numbers[0], 0};
    const int64_t statistics = form.columns ? form.images * form.channels : form.all_lines();
    if (split_) parts_ = statistics * params_.most;
    if (joins_) joins_at_ = parts_, parts_ += statistics;
  }
  size_t workspace_bytes() const override { return static_cast<size_t>(parts_) * statistic_bytes; }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.scale = at.inputs[1], params.bias = at.inputs[2], params.y = at.outputs[0];
    params.parts = at.workspace, params.joined = at.workspace + static_cast<size_t>(joins_at_) * statistic_bytes;
    if (split_) launch(device_, sums_, grid_, at, params);
    if (joins_) launch(device_, joined_, join_grid_, at, params);
    launch(device_, results_, grid_, at, params);
  }

 private:
  Device& device_;
  static constexpr size_t statistic_bytes = 2 * sizeof(float);
  bool split_, joins_;
  Function sums_{}, joined_{}, results_;
  Params params_{};
  Grid grid_, join_grid_;
  int64_t parts_ = 0, joins_at_ = 0;  // statistics
};

/// First where the threads of a group would each read a few bytes a pixel.
template <bool columns>
Kernel kernel(const char* name, int priority) {
  return {"", name, priority, refuses<columns>, tactics<columns>, make_step<GroupNormStep<columns>>};
}

const KernelRegistrar groups({"InstanceNormalization", "GroupNormalization"}, kernel<false>("groups", 1));
const KernelRegistrar columns({"InstanceNormalization", "GroupNormalization"}, kernel<true>("columns", 2));

}  // namespace
}  // namespace tenon::cuda::group_norm

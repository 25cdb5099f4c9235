// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/convolution/conv_cluster_params.h"
#include "backends/cuda/convolution/hopper.h"

namespace tenon::cuda::conv_cluster {
namespace {

using Params = ConvClusterParams;

constexpr int64_t most_pixels = 64 * 256;

struct Form {
  int bn, split, kb, stages;
};

std::vector<Form> forms_of(const ConvShape& shape, const Properties& properties, int lists) {
  std::vector<Form> list;
  const int kb = slab_bytes(shape);
  const int64_t taps = int64_t{shape.kernel_h} * shape.kernel_w;
  const int64_t slabs = taps * padded_channels(shape, kb) * static_cast<int64_t>(size_of(shape.x_type)) / kb;
  for (const int bn : {64, 128, 256, 80, 32, 48, 16})
    for (const int split : {1, 2, 4, 8}) {
      const bool covers = bn == 64 || (bn == 32 && shape.out_c < 64);
      if ((shape.out_c % bn && !covers) || slabs < split) continue;
      if (bn < 64 && shape.out_c % 64 == 0 && bn != 32) continue;
      if (bn > 64 && (split == 1 || slabs < 8 * split)) continue;
      const int64_t blocks = ceil_div(shape.pixels(), 64) * ceil_div(shape.out_c, bn) * split;
      const int64_t stage = (64 + bn) * kb, most = ceil_div(slabs, split);
      const int64_t room = properties.shared_bytes - bn / 16 * 4096 - bn * (36 + 4 * lists) - 3072;
      const int64_t stages = std::min({most, room / stage, int64_t{16}});
      if (stages < std::min<int64_t>(most, 4)) continue;
      if (split > 1 && blocks > 4 * properties.multiprocessors) continue;
      if (blocks > 16 * properties.multiprocessors) continue;
      list.push_back({bn, split, kb, static_cast<int>(stages)});
    }
  return list;
}

Reason refuses(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  if (const Reason reason = any_conv_shape(problem, shape)) return reason;
  if (const Reason reason = refuses_maps(problem, shape, properties, false, true)) return reason;
  if (shape.pixels() > most_pixels) return {Reason::too_many, most_pixels, "pixels"};
  return forms_of(shape, properties, most_lists(problem)).empty() ? Reason(Reason::no_tile) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  any_conv_shape(problem, shape);
  std::vector<Tactic> list;
  for (const Form& form : forms_of(shape, properties, most_lists(problem))) {
    std::vector<std::string> defines;
    for (const std::string& word :
         {define("IM2COL", !is_one_row(shape)), define("BN", form.bn), define("STAGES", form.stages),
          define("SPLIT", form.split), define("KB", form.kb), define("KR", shape.kernel_h),
          define("KS", shape.kernel_w), define("CIN", padded_channels(shape, form.kb)), define("COUT", shape.out_c),
          define("STRIDE", shape.stride_h), define("PAD_H", shape.pad_top), define("PAD_W", shape.pad_left)})
      defines.push_back(word);
    list.push_back({"cluster 64x" + std::to_string(form.bn) + " of " + std::to_string(form.split),
                    {hopper_source(problem, shape, "conv_cluster.cu", {form.bn}, defines)},
                    {form.bn, form.split, form.kb, form.stages}});
  }
  return list;
}

class ClusterStep : public Step {
 public:
  ClusterStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), form_{tactic.numbers[0], tactic.numbers[1], tactic.numbers[2], tactic.numbers[3]} {
    any_conv_shape(problem, shape_);
    const int shared = device.constants(tactic.sources[0], "meta")[0];
    function_ = device.function(tactic.sources[0], "conv_cluster", shared);
    const HopperConstants constants = upload_constants(
        problem, shape_, form_.kb, ceil_div(shape_.out_c, 16) * 16, ceil_div(shape_.out_c, 16) * 16,
        [](int64_t at) { return at / 16 * 16 + at % 8 / 2 * 4 + at % 16 / 8 * 2 + at % 2; },
        [](int64_t at) { return at; }, packed_);
    residual_ = has_residual(problem) && conv_epilogue(problem).residual != ops::Residual::none;
    params_.b = tiled_map(constants.weights, shape_.x_type, {constants.depth, constants.rows}, {1, constants.depth},
                          {slab_elements(), form_.bn});
    params_.numbers = constants.numbers, params_.border_sums = constants.border_sums;
    params_.border_rows = constants.border_rows, params_.border_columns = constants.border_columns;
    params_.finish = constants.finish, params_.classes = constants.classes;
    const auto result = static_cast<int64_t>(size_of(shape_.y_type));
    params_.to_pitch = shape_.y[2] * result, params_.other_pitch = shape_.residual[2] * result;
    params_.pixels = static_cast<int>(shape_.pixels());
    params_.out_h = static_cast<int>(shape_.out_h), params_.out_w = static_cast<int>(shape_.out_w);
    grid_ = {ceil_div(shape_.pixels(), 64) * ceil_div(shape_.out_c, form_.bn) * form_.split, 1, 1, 128, shared};
  }
  bool reads(size_t input) const override { return input == 0 || input == 3; }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.a = is_one_row(shape_) ? tiled_map(at.inputs[0], shape_.x_type, {shape_.in_c, shape_.pixels()},
                                              {1, shape_.x[2]}, {slab_elements(), 64})
                                  : im2col_map(at.inputs[0], shape_, slab_elements(), 64);
    params.to = at.outputs[0];
    if (residual_) params.other = at.inputs[3];
    launch(device_, function_, grid_, at, params);
  }

 private:
  int slab_elements() const { return form_.kb / static_cast<int>(size_of(shape_.x_type)); }

  Device& device_;
  Form form_;
  Function function_;
  ConvShape shape_{};
  Buffer packed_;
  Params params_{};
  Grid grid_;
  bool residual_;
};

const KernelRegistrar registered({"Conv", "tenon:Int8Conv", "tenon:Float8Conv"},
                                 {"", "cluster", 1, refuses, tactics, make_step<ClusterStep>});

}  // namespace
}  // namespace tenon::cuda::conv_cluster

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cuda/convolution/conv_tf32_params.h"
#include "backends/cuda/convolution/hopper.h"

namespace tenon::cuda::conv_tf32 {
namespace {

using Params = ConvTf32Params;

/// The macros of conv_tf32.cu.
struct Form {
  int mi, bn, kb, ksub, stages, nwg, coop, bres;
  int pixels() const { return (coop ? nwg : 1) * mi * 64; }
};

constexpr int element = 4;

int64_t round_up(int64_t value, int64_t to) { return ceil_div(value, to) * to; }
int64_t slabs_of(const ConvShape& shape, int kb) {
  return int64_t{shape.kernel_h} * shape.kernel_w * padded_channels(shape, kb) * element / kb;
}

/// Fills stages with what shared memory allows; false where the form does not fit.
bool complete(Form& form, const ConvShape& shape, const Properties& properties, int most_stages) {
  const int64_t slabs = slabs_of(shape, form.kb);
  if (slabs % form.ksub) return false;
  const int64_t weights = int64_t{form.bn} * form.kb;
  if (weights % 1024 && (form.bres || form.ksub > 1)) return false;
  const int64_t stage = round_up(form.ksub * (int64_t{form.pixels()} * form.kb + (form.bres ? 0 : weights)), 1024);
  const int64_t room = properties.shared_bytes - 2048 - (form.bres ? round_up(weights * slabs, 1024) : 0);
  form.stages = static_cast<int>(std::min<int64_t>(most_stages, room / stage));
  return form.stages >= (slabs / form.ksub > 1 ? 3 : 2) && form.pixels() <= 256 &&
         form.mi * form.bn <= (form.nwg <= 2 ? 256 : 128);
}

std::vector<Form> forms_of(const ConvShape& shape, const Properties& properties) {
  std::vector<Form> list;
  const int kb = slab_bytes(shape);
  const int64_t slabs = slabs_of(shape, kb);
  const auto add = [&](Form form, int most_stages = 6) {
    if (complete(form, shape, properties, most_stages)) list.push_back(form);
  };
  const auto ksub_for = [&](int64_t bytes_per_slab, int64_t wanted) {
    int64_t ksub = 1;
    for (int64_t k = 1; k <= slabs && k * bytes_per_slab <= wanted; ++k)
      if (slabs % k == 0) ksub = k;
    return static_cast<int>(ksub);
  };
  std::vector<int> widths;
  for (const int width : {256, 128, 96, 80, 64, 48, 32, 16})
    if (shape.out_c % width == 0 && widths.size() < (width < 64 ? 1 : 3)) widths.push_back(width);
  if (widths.empty()) widths.push_back(shape.out_c <= 128 ? static_cast<int>(round_up(shape.out_c, 16)) : 64);
  const int64_t work = ceil_div(shape.pixels(), 64) * ceil_div(shape.out_c, 64);
  const bool small = work <= 4 * properties.multiprocessors, large = work > 24 * properties.multiprocessors;
  for (const int bn : widths) {
    if (bn == 256) {
      if (small) continue;
      add({1, bn, kb, 1, 0, 2, 0, 0});
      add({1, bn, kb, 1, 0, 2, 1, 0});
      continue;
    }
    if (!large) {
      const int pair = ksub_for((64 + bn) * kb, 34000);
      add({1, bn, kb, pair, 0, 1, 0, 0});
      add({1, bn, kb, pair, 0, 2, 0, 0});
      // Two blocks fit into a multiprocessor: the next grid's may begin beside this one's.
      add({1, bn, kb, pair, 0, 1, 0, 0}, 3);
      add({1, bn, kb, ksub_for((128 + bn) * kb, 34000), 0, 2, 1, 0});
    }
    if (small) continue;
    for (const int nwg : {2, 3, 4}) add({1, bn, kb, ksub_for(64 * kb, 32768), 0, nwg, 0, 1});
    add({1, bn, kb, ksub_for((192 + bn) * kb, 40960), 0, 3, 1, 0});
    add({2, bn, kb, ksub_for((128 + bn) * kb, 32768), 0, 2, 0, 0});
  }
  return list;
}

std::string name_of(const Form& f) {
  return "tf32 " + std::to_string(f.pixels()) + "x" + std::to_string(f.bn) + " " + std::to_string(f.nwg) +
         (f.coop ? " together" : " apart") + (f.bres ? " resident " : " ") + std::to_string(f.ksub) + "x" +
         std::to_string(f.stages);
}

Reason refuses(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  if (const Reason reason = conv_shape(problem, shape)) return reason;
  if (!problem.tf32) return {Reason::precision, "tf32"};
  if (const Reason reason = refuses_maps(problem, shape, properties, true)) return reason;
  return forms_of(shape, properties).empty() ? Reason(Reason::no_tile) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  conv_shape(problem, shape);
  std::vector<Tactic> list;
  for (const Form& form : forms_of(shape, properties)) {
    std::vector<std::string> defines;
    for (const std::string& word :
         {define("MODE", !is_one_row(shape)), define("MI", form.mi), define("WM", 64 * form.mi), define("BN", form.bn),
          define("KB", form.kb), define("KBB", form.kb), define("KSUB", form.ksub), define("STAGES", form.stages),
          define("NWG", form.nwg), define("COOP", form.coop), define("BRES", form.bres), define("KR", shape.kernel_h),
          define("KS", shape.kernel_w), define("CIN", padded_channels(shape, form.kb)), define("COUT", shape.out_c),
          define("STRIDE", shape.stride_h), define("PAD_H", shape.pad_top), define("PAD_W", shape.pad_left)})
      defines.push_back(word);
    const int* numbers = &form.mi;
    list.push_back({name_of(form),
                    {hopper_source(problem, shape, "conv_tf32.cu", {form.bn}, std::move(defines))},
                    {numbers, numbers + sizeof form / sizeof(int)}});
  }
  return list;
}

class Tf32Step : public Step {
 public:
  Tf32Step(const Problem& problem, Device& device, const Tactic& tactic) : device_(device) {
    conv_shape(problem, shape_);
    std::memcpy(&form_, tactic.numbers.data(), sizeof form_);
    const std::vector<int> meta = device.constants(tactic.sources[0], "meta");
    function_ = device.function(tactic.sources[0], "conv_tf32", meta[0]);
    const int64_t rows = round_up(shape_.out_c, form_.bn);
    const HopperConstants constants = upload_constants(
        problem, shape_, form_.kb, rows, rows,
        [](int64_t at) { return at / 16 * 16 + at % 8 / 2 * 4 + at % 16 / 8 * 2 + at % 2; },
        [](int64_t at) { return at; }, packed_);
    params_.b = tiled_map(constants.weights, DType::f32, {constants.depth, rows}, {1, constants.depth},
                          {form_.kb / element, form_.bn});
    params_.bias = constants.numbers;
    const ops::Epilogue epilogue = conv_epilogue(problem);
    residual_ = has_residual(problem) && epilogue.residual != ops::Residual::none;
    params_.to_pitch = shape_.y[2], params_.other_pitch = shape_.residual[2];
    params_.pixels = static_cast<int>(shape_.pixels());
    params_.out_h = static_cast<int>(shape_.out_h), params_.out_w = static_cast<int>(shape_.out_w);
    params_.tiles = static_cast<int>(ceil_div(shape_.pixels(), form_.pixels()));
    params_.alpha = epilogue.alpha, params_.beta = epilogue.beta;
    const int64_t tiles_n = ceil_div(shape_.out_c, form_.bn);
    int64_t blocks = device.properties().multiprocessors;
    if (form_.bres) blocks = std::max<int64_t>(blocks / tiles_n, 1) * tiles_n;
    grid_ = {std::min(blocks, params_.tiles * tiles_n), 1, 1, meta[1], meta[0]};
  }
  bool reads(size_t input) const override { return input == 0 || input == 3; }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    const ConvShape& s = shape_;
    params.a = is_one_row(s) ? tiled_map(at.inputs[0], DType::f32, {s.in_c, s.pixels()}, {1, s.x[2]},
                                         {form_.kb / element, form_.pixels()})
                             : im2col_map(at.inputs[0], s, form_.kb / element, form_.pixels());
    params.to = at.outputs[0];
    if (residual_) params.other = at.inputs[3];
    launch(device_, function_, grid_, at, params);
  }

 private:
  Device& device_;
  Function function_;
  ConvShape shape_{};
  Form form_{};
  Buffer packed_;
  Params params_{};
  Grid grid_;
  bool residual_;
};

const KernelRegistrar conv({"Conv", "tf32", 2, refuses, tactics, make_step<Tf32Step>});

}  // namespace
}  // namespace tenon::cuda::conv_tf32

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cuda/convolution/conv_wgmma.h"
#include "backends/cuda/convolution/conv_wgmma_params.h"
#include "backends/cuda/convolution/hopper.h"

namespace tenon::cuda::conv_wgmma {
namespace {

using Params = ConvWgmmaParams;

/// The macros of conv_wgmma.cu.
struct Form {
  int mode, wm, bn, kb, ksub, stages, nwg, coop, bres, nbuf, swap, blocks = 1;
  int roomy = 0;            // one block a multiprocessor: the room of another is for the next grid's
  int kbb = 0, result = 0;  // bytes of a result's element
  int lists = 1;            // of numbers by channel, at most
  int pixels() const { return coop ? nwg * wm : wm; }
  /// Bytes of channels in a group.
  int gb() const {
    const int row = bn * result;
    if (nbuf && row % 128 == 0) return 128;
    return row % 64 == 0 ? 64 : row % 32 == 0 ? 32 : 16;
  }
  /// The channel whose weights are row `at`, in the order that the kernel's head describes.
  int64_t channel_of(int64_t at) const {
    if (swap) return at / 16 * 16 + at % 8 * 2 + at % 16 / 8;
    const int64_t gc = gb() / result, n = at % gc;
    return at / gc * gc + n % 8 / 2 * (gc / 4) + n / 8 * 2 + n % 2;
  }
};

constexpr int64_t most_halo_slabs = 3;

int64_t depth_bytes(const ConvShape& shape, int slab) {
  return int64_t{shape.kernel_h} * shape.kernel_w * padded_channels(shape, slab) *
         static_cast<int64_t>(size_of(shape.x_type));
}
int64_t round_up(int64_t value, int64_t to) { return ceil_div(value, to) * to; }
/// Of a pixel's channels.
int64_t halo_slabs(const ConvShape& shape, int slab) {
  return padded_channels(shape, slab) * static_cast<int64_t>(size_of(shape.x_type)) / slab;
}

/// Fills stages with what shared memory allows; false where the form does not fit.
bool complete(Form& form, const ConvShape& shape, const Properties& properties, int most_stages) {
  const int64_t depth = depth_bytes(shape, form.kb);
  // Resident weights lie in the longest rows; the depth of a halo tile is that of all taps.
  form.kbb = form.kb;
  if (form.mode == 2)
    for (const int bytes : {32, 64, 128})
      if (depth % bytes == 0) form.kbb = bytes;
  const int64_t tm = form.pixels();
  int64_t stage = form.ksub * tm * form.kb;
  if (form.mode == 2)
    stage =
        halo_slabs(shape, form.kb) * round_up((tm / 8 + shape.kernel_h - 1) * (8 + shape.kernel_w - 1) * form.kb, 1024);
  else if (depth / form.kb % form.ksub) return false;
  if (!form.bres) stage += form.ksub * form.bn * form.kb;
  stage = round_up(stage, 1024);
  // Lists by channel, and what borders add, as far as the kernel keeps them.
  const int64_t own = form.bres ? form.bn : round_up(shape.out_c, form.bn);
  const bool bytes = size_of(shape.x_type) == 1;
  int64_t lists = own * (bytes ? 8 : 4) <= 8192 ? own * 4 * form.lists : 0;
  if (bytes && shape.kernel_h * shape.kernel_w > 1) lists += 512 + (own * 36 <= 9216 ? own * 36 : 0);
  const int64_t resident = (form.bres ? round_up(form.bn * depth, 1024) : 0) + lists;
  const int64_t out = int64_t{form.nwg} * form.nbuf * form.wm * form.bn * form.result;
  if (form.wm * form.bn * form.result % 1024) return false;
  if (form.mode == 2 && (form.kb < 32 || stage / form.kb / 8 > 256 * 64)) return false;
  if (tm > 256) return false;
  // A block's own kilobyte is the system's.
  const int64_t share = (properties.shared_bytes + 1024) / form.blocks - 1024;
  const int64_t room = share - 2048 - resident - out;
  form.stages = static_cast<int>(std::min<int64_t>(most_stages, room / stage));
  const int accumulators = (form.swap ? form.wm : form.wm / 64 * form.bn) / 2;
  const int shared_registers = form.blocks > 2 ? 32 : form.nwg == 1 ? 64 : 40;
  if (accumulators > (form.blocks > 1 ? shared_registers : form.nwg <= 2 ? 128 : 64)) return false;
  const int64_t per_tile = form.mode == 2 ? 1 : depth / form.kb / form.ksub;
  return form.stages >= (per_tile > 1 ? 3 : 2);
}

std::string name_of(const Form& f, int slab) {
  static constexpr const char* modes[] = {"point", "im2col", "halo"};
  std::string name = std::string("wgmma ") + modes[f.mode] + " " + std::to_string(f.pixels()) + "x" +
                     std::to_string(f.bn) + " " + std::to_string(f.nwg) + (f.coop ? " together" : " apart");
  if (f.bres) name += " resident";
  if (f.nbuf) name += " staged " + std::to_string(f.nbuf);
  if (f.swap) name += " swapped";
  if (f.roomy) name += " roomy";
  else if (f.blocks > 1) name += " by " + std::to_string(f.blocks);
  name += " " + std::to_string(f.ksub) + "x" + std::to_string(f.stages);
  return f.kb == slab ? name : name + " of " + std::to_string(f.kb);
}

/// Tiles of channels: those that divide them, wide ones first, else one that holds or covers them. Of deep products
/// there are few, and how they fill the multiprocessors decides.
std::vector<int> widths_of(const ConvShape& shape) {
  std::vector<int> list;
  const size_t most = shape.depth() >= 512 && shape.out_c >= 512 ? 4 : 3;
  for (const int width : {256, 192, 144, 128, 96, 80, 64, 48, 32, 16})
    if (shape.out_c % width == 0 && list.size() < most) list.push_back(width);
  if (!list.empty()) return list;
  if (shape.out_c <= 128) return {static_cast<int>(round_up(shape.out_c, 16))};
  for (const int width : {256, 192, 128})
    if (round_up(shape.out_c, width) * 20 <= shape.out_c * 21) list.push_back(width);
  list.push_back(64);
  return list;
}

/// Whether weights that all blocks read leave the L2 before they have served all pixels, which would stay there.
bool has_many_weights(const ConvShape& shape, int slab) {
  constexpr int64_t of_l2 = 16 << 20;  // bytes; a third of what the smallest of these GPUs has
  const int64_t weights = shape.out_c * depth_bytes(shape, slab);
  return weights > of_l2 && shape.pixels() * shape.in_c * static_cast<int64_t>(size_of(shape.x_type)) < weights;
}

/// Forms with slabs of `kb` bytes.
void add_forms(const Problem& problem, const ConvShape& shape, const Properties& properties, int kb,
               std::vector<Form>& list) {
  const int mode = is_one_row(shape) ? 0 : 1;
  const int64_t slabs = depth_bytes(shape, kb) / kb;
  const int buffers = has_residual(problem) ? 2 : 1;
  const bool odd = is_odd(problem, shape);
  const auto add = [&](Form form, int most_stages = 8) {
    if (odd) form.nbuf = 1;
    form.result = static_cast<int>(size_of(shape.y_type));
    form.lists = most_lists(problem);
    if (complete(form, shape, properties, most_stages)) list.push_back(form);
  };
  const auto ksub_for = [&](int64_t bytes_per_slab, int64_t wanted) {
    int64_t ksub = 1;
    for (int64_t k = 1; k <= slabs && k * bytes_per_slab <= wanted; ++k)
      if (slabs % k == 0) ksub = k;
    return static_cast<int>(ksub);
  };
  const int64_t work = ceil_div(shape.pixels(), 64) * ceil_div(shape.out_c, 64);
  const bool small = work <= 4 * properties.multiprocessors, large = work > 24 * properties.multiprocessors;
  const bool huge = work > 48 * properties.multiprocessors;
  const bool halo = mode == 1 && shape.stride_h == 1 && halo_slabs(shape, kb) <= most_halo_slabs;
  const bool short_halo = halo && halo_slabs(shape, kb) == 1;
  for (const int bn : widths_of(shape)) {
    const int ksub = ksub_for(64 * kb, 32768);
    if (!large) {
      const int pair = ksub_for((64 + bn) * kb, 34000);
      add({mode, 64, bn, kb, pair, 0, 1, 0, 0, 0, 0}, 6);
      add({mode, 64, bn, kb, pair, 0, 2, 0, 0, 0, 0}, 6);
      // Two blocks fit into a multiprocessor: the next grid's may begin beside this one's.
      add({mode, 64, bn, kb, pair, 0, 1, 0, 0, 0, 0}, 3);
      add({mode, 64, bn, kb, ksub_for((128 + bn) * kb, 34000), 0, 2, 1, 0, 0, 0}, 6);
    }
    if (halo && bn >= 16) {
      add({2, 64, bn, kb, 1, 0, 3, 0, 1, buffers, 0});
      add({2, 128, bn, kb, 1, 0, 2, 0, 1, buffers, 0});
    }
    // The next grid's blocks begin, and load their weights, while this one's end.
    if (!huge && bn <= 128) {
      const int own = short_halo ? 2 : mode;
      const int slab_count = short_halo ? 1 : ksub;
      add({own, 64, bn, kb, slab_count, 0, 2, 0, 1, buffers, 0, 2, 1}, 4);
      add({own, 64, bn, kb, slab_count, 0, 1, 0, 1, buffers, 0, 2, 1}, 4);
      if (bn <= 32) add({own, 128, bn, kb, slab_count, 0, 1, 0, 1, buffers, 0, 2, 1}, 4);
      if (mode != 2) add({mode, 64, bn, kb, ksub_for((64 + bn) * kb, 17000), 0, 2, 0, 0, 0, 0, 2, 1}, 6);
    }
    if (small) continue;
    // Narrow tiles are bound by waiting: other blocks go on meanwhile.
    if (bn <= 64) {
      const int own = short_halo ? 2 : mode;
      const int slab_count = short_halo ? 1 : ksub;
      add({own, 64, bn, kb, slab_count, 0, 2, 0, 1, buffers, 0, 2}, 4);
      add({own, 64, bn, kb, slab_count, 0, 1, 0, 1, buffers, 0, 3}, 4);
      if (bn <= 32) add({own, 128, bn, kb, slab_count, 0, 2, 0, 1, buffers, 0, 2}, 4);
      if (bn <= 32) add({own, 64, bn, kb, slab_count, 0, 1, 0, 1, buffers, 0, 4}, 4);
    }
    // Each its own tiles, weights resident: bound by memory.
    for (const int nwg : {2, 3, 4}) add({mode, 64, bn, kb, ksub, 0, nwg, 0, 1, buffers + (nwg < 4), 0});
    // Rings of pixels and weights: bound by products.
    add({mode, 64, bn, kb, ksub_for((192 + bn) * kb, 40960), 0, 3, 1, 0, 0, 0}, 6);
    add({mode, 128, bn, kb, ksub_for((128 + bn) * kb, 32768), 0, 2, 0, 0, 1, 0}, 6);
    if (bn == 256) add({mode, 64, bn, kb, 1, 0, 2, 0, 0, buffers, 0}, 6);
    if (mode == 1) add({mode, 128, bn, kb, 1, 0, 2, 0, 1, 0, 0}, 6);
  }
  if (halo && shape.out_c == 64 && size_of(shape.y_type) < 4)
    for (const int rows : {14, 16, 20, 28}) {
      if (ceil_div(shape.out_h, rows) * rows * 8 > shape.out_h * 9) continue;
      add({2, rows * 8, 64, kb, 1, 0, rows <= 16 ? 4 : 2, 0, 1, buffers, 1});
      add({2, rows * 8, 64, kb, 1, 0, 2, 0, 1, buffers, 1});
    }
}

std::vector<Form> forms_of(const Problem& problem, const ConvShape& shape, const Properties& properties) {
  std::vector<Form> list;
  const int kb = slab_bytes(shape);
  add_forms(problem, shape, properties, kb, list);
  // Bytes are cheap to multiply: a longer row that is mostly zeros may still be the faster one.
  const int whole = shape.in_c > 64 ? 128 : shape.in_c > 32 ? 64 : 32;
  if (is_int8(problem) && whole != kb) add_forms(problem, shape, properties, whole, list);
  return list;
}

Reason refuses(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  if (const Reason reason = any_conv_shape(problem, shape)) return reason;
  return refuses_shape(problem, shape, properties);
}

Tactic tactic_of(const Problem& problem, const ConvShape& shape, const Form& form) {
  std::vector<std::string> defines;
  for (const std::string& word : {define("MODE", form.mode),
                                  define("WM", form.wm),
                                  define("BN", form.bn),
                                  define("KB", form.kb),
                                  define("KBB", form.kbb),
                                  define("KSUB", form.ksub),
                                  define("STAGES", form.stages),
                                  define("NWG", form.nwg),
                                  define("COOP", form.coop),
                                  define("BRES", form.bres),
                                  define("NBUF", form.nbuf),
                                  define("GB", form.gb()),
                                  define("SWAP", form.swap),
                                  define("BLOCKS", form.blocks),
                                  define("KR", shape.kernel_h),
                                  define("KS", shape.kernel_w),
                                  define("CIN", padded_channels(shape, form.kb)),
                                  define("COUT", shape.out_c),
                                  define("STRIDE", shape.stride_h),
                                  define("PAD_H", shape.pad_top),
                                  define("PAD_W", shape.pad_left),
                                  define("PIXELS_FIRST", has_many_weights(shape, form.kb))})
    defines.push_back(word);
  const int* numbers = &form.mode;
  return {name_of(form, slab_bytes(shape)),
          {hopper_source(problem, shape, "conv_wgmma.cu", {form.swap ? form.wm : form.bn}, defines)},
          {numbers, numbers + sizeof form / sizeof(int)}};
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  any_conv_shape(problem, shape);
  return tactics_of(problem, shape, properties);
}

Form form_of(const Tactic& tactic) {
  Form form{};
  std::copy(tactic.numbers.begin(), tactic.numbers.end(), &form.mode);
  return form;
}

ConvShape shape_of(const Problem& problem) {
  ConvShape shape{};
  any_conv_shape(problem, shape);
  return shape;
}

class WgmmaStep : public Step {
 public:
  WgmmaStep(const Problem& problem, Device& device, const Tactic& tactic)
      : WgmmaStep(problem, shape_of(problem), device, tactic, false) {}
  WgmmaStep(const Problem& problem, const ConvShape& shape, Device& device, const Tactic& tactic, bool run_weights)
      : device_(device), shape_(shape), form_(form_of(tactic)), run_weights_(run_weights) {
    const std::vector<int> meta = device.constants(tactic.sources[0], "meta");
    function_ = device.function(tactic.sources[0], "conv_wgmma", meta[0]);
    halo_h_ = meta[3], halo_w_ = meta[4];
    pack(problem);
    is_odd_ = is_odd(problem, shape_);
    residual_ = has_residual(problem) && conv_epilogue(problem).residual != ops::Residual::none;
    const int64_t tiles_n = ceil_div(shape_.out_c, form_.bn), tm = form_.pixels();
    params_.to_pitch = shape_.y[2] * form_.result, params_.other_pitch = shape_.residual[2] * form_.result;
    params_.pixels = static_cast<int>(shape_.pixels());
    params_.out_h = static_cast<int>(shape_.out_h), params_.out_w = static_cast<int>(shape_.out_w);
    params_.tiles_w = static_cast<int>(ceil_div(shape_.out_w, 8));
    params_.tiles_h = static_cast<int>(ceil_div(shape_.out_h, std::max<int64_t>(tm / 8, 1)));
    params_.tiles = form_.mode == 2 ? static_cast<int>(shape_.batch) * params_.tiles_w * params_.tiles_h
                                    : static_cast<int>(ceil_div(shape_.pixels(), tm));
    int64_t blocks = int64_t{device.properties().multiprocessors} * (form_.roomy ? 1 : form_.blocks);
    if (form_.bres) blocks = std::max<int64_t>(blocks / tiles_n, 1) * tiles_n;
    grid_ = {std::min(blocks, params_.tiles * tiles_n), 1, 1, meta[1], meta[0]};
  }
  bool reads(size_t input) const override { return input == 0 || input == 3; }

  void enqueue(const Launch& at) const override {
    Params params = params_;
    const ConvShape& s = shape_;
    const int gc = form_.gb() / form_.result, slab = form_.kb / element();
    const std::vector<int64_t> image{s.in_c, s.in_w, s.in_h, s.batch}, image_steps{1, s.x[2], s.x[1], s.x[0]};
    if (form_.mode == 0)
      params.a = tiled_map(at.inputs[0], s.x_type, {s.in_c, s.pixels()}, {1, s.x[2]}, {slab, form_.pixels()});
    else if (form_.mode == 1) params.a = im2col_map(at.inputs[0], s, slab, form_.pixels());
    else params.a = tiled_map(at.inputs[0], s.x_type, image, image_steps, {slab, halo_w_, halo_h_, 1});
    if (form_.nbuf && !is_odd_) {
      const auto map = [&](Address data, const int64_t(&strides)[4]) {
        if (form_.mode != 2) return tiled_map(data, s.y_type, {s.out_c, s.pixels()}, {1, strides[2]}, {gc, form_.wm});
        return tiled_map(data, s.y_type, {s.out_c, s.out_w, s.out_h, s.batch}, {1, strides[2], strides[1], strides[0]},
                         {gc, 8, form_.wm / 8, 1});
      };
      params.y = map(at.outputs[0], s.y);
      if (residual_) params.residual = map(at.inputs[3], s.residual);
    }
    if (run_weights_) params.b = weights_map(at.inputs[1]);
    params.to = at.outputs[0];
    if (residual_) params.other = at.inputs[3];
    launch(device_, function_, grid_, at, params);
  }

 private:
  int element() const { return static_cast<int>(size_of(shape_.x_type)); }
  TensorMap weights_map(Address weights) const {
    const int64_t depth = int64_t{shape_.kernel_h} * shape_.kernel_w * padded_channels(shape_, form_.kb);
    return tiled_map(weights, shape_.x_type, {depth, round_up(shape_.out_c, form_.bn)}, {1, depth},
                     {form_.kbb / element(), form_.bn});
  }
  /// Constants padded to whole tiles.
  void pack(const Problem& problem) {
    const int64_t gc = form_.gb() / form_.result, per_access = std::min(form_.gb() / 4, 16) / form_.result;
    const int64_t accesses = gc / 4 / per_access;
    const auto row_of = [&](int64_t at) { return form_.channel_of(at); };
    const auto number_of = [&](int64_t at) {
      // Reading order: access, four channels, lane of four.
      const int64_t n = at % gc, i = n % 4, q = n / 4 % 4, quad = n / 16 % (per_access / 4);
      const int64_t access = n / 16 / (per_access / 4);
      return form_.swap ? at : at / gc * gc + (q * accesses + access) * per_access + quad * 4 + i;
    };
    const HopperConstants constants = upload_constants(problem, shape_, form_.kb, round_up(shape_.out_c, form_.bn),
                                                       form_.bn, row_of, number_of, packed_, !run_weights_);
    params_.numbers = constants.numbers, params_.border_sums = constants.border_sums;
    params_.border_rows = constants.border_rows, params_.border_columns = constants.border_columns;
    params_.classes = constants.classes;
    params_.finish = constants.finish;
    if (!run_weights_) params_.b = weights_map(constants.weights);
  }

  Device& device_;
  Function function_;
  ConvShape shape_;
  Form form_;
  bool run_weights_;  // are no constants: input 1 has them, packed
  Buffer packed_;
  Params params_{};
  Grid grid_;
  int halo_h_, halo_w_;
  bool residual_, is_odd_;
};

const KernelRegistrar registered({"Conv", "tenon:Int8Conv", "tenon:Float8Conv"},
                                 {"", "wgmma", 1, refuses, tactics, make_step<WgmmaStep>});

}  // namespace

Reason refuses_shape(const Problem& problem, const ConvShape& shape, const Properties& properties) {
  if (const Reason reason = refuses_maps(problem, shape, properties, false, true)) return reason;
  return forms_of(problem, shape, properties).empty() ? Reason(Reason::no_tile) : Reason();
}

std::vector<Tactic> tactics_of(const Problem& problem, const ConvShape& shape, const Properties& properties) {
  std::vector<Tactic> list;
  for (const Form& form : forms_of(problem, shape, properties)) list.push_back(tactic_of(problem, shape, form));
  return list;
}

WeightRows weight_rows(const ConvShape& shape, const Tactic& tactic) {
  const Form form = form_of(tactic);
  WeightRows rows{{}, int64_t{shape.kernel_h} * shape.kernel_w * padded_channels(shape, form.kb)};
  for (int64_t at = 0; at < round_up(shape.out_c, form.bn); ++at) rows.channels.push_back(form.channel_of(at));
  return rows;
}

std::unique_ptr<Step> make_for_run_weights(const Problem& problem, const ConvShape& shape, Device& device,
                                           const Tactic& tactic) {
  return std::make_unique<WgmmaStep>(problem, shape, device, tactic, true);
}

}  // namespace tenon::cuda::conv_wgmma

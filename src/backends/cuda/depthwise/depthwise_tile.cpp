// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/depthwise/depthwise.h"

namespace tenon::cuda::depthwise_tile {
namespace {

/// A thread makes `width` pixels of a row, `strips` of them lie beside each other, `height` rows below each other;
/// `group` channels a block.
struct Form {
  int width, strips, height, group;
  int threads() const { return group / 2 * strips * height; }
};

constexpr int most_strips = 4, most_threads = 512, least_threads = 32, most_taps = 31 * 31;

Reason refuses(const Problem& problem, const Properties& properties) {
  if (properties.capability() < 80) return {Reason::capability, "it", "8.0"};
  ConvShape shape{};
  if (const Reason reason = depthwise_shape(problem, shape, most_taps)) return reason;
  if (shape.kernel_h * shape.kernel_w <= 9) return {Reason::window, "of more than 9 taps"};
  if (shape.dilation_h != 1 || shape.dilation_w != 1) return Reason::dilated;
  const auto chunk = static_cast<int64_t>(16 / size_of(shape.x_type));
  if (shape.in_c % chunk) return {Reason::not_multiple, "channels", "16 bytes"};
  for (int at = 0; at < 3; ++at)
    if (shape.x[at] % chunk || shape.y[at] % 2 || (has_residual(problem) && shape.residual[at] % 2))
      return {Reason::unaligned, "pixels"};
  if (!problem.inputs[0].aligned || !problem.outputs[0].aligned ||
      (has_residual(problem) && !problem.inputs[3].aligned))
    return {Reason::unaligned, "operand"};
  return {};
}

int64_t shared_of(const ConvShape& shape, const Form& form) {
  const int64_t height = (form.height - 1) * shape.stride_h + shape.kernel_h;
  const int64_t width = (form.width * form.strips - 1) * shape.stride_w + shape.kernel_w;
  return form.group * (height * (width | 1) * static_cast<int64_t>(size_of(shape.x_type)) +
                       shape.kernel_h * shape.kernel_w * static_cast<int64_t>(sizeof(float)));
}

std::vector<Form> forms_of(const ConvShape& shape) {
  // The width that leaves least of a row over.
  int width = 7;
  for (const int other : {8, 5, 6, 4})
    if (ceil_div(shape.out_w, other) * other < ceil_div(shape.out_w, width) * width) width = other;
  const bool low = shape.out_h < 4;  // such as sequences
  const auto strips =
      static_cast<int>(std::min<int64_t>(ceil_div(shape.out_w, width), low ? 4 * most_strips : most_strips));
  std::vector<Form> forms;
  for (const int height : low ? std::vector<int>{static_cast<int>(shape.out_h)} : std::vector<int>{7, 4, 14})
    for (const int group : {16, 8, 32}) {
      const Form form{width, strips, height, group};
      const bool fits = height < shape.out_h + 4 && form.threads() <= most_threads && form.threads() >= least_threads &&
                        group <= shape.in_c && shared_of(shape, form) <= 96 * 1024;
      if (fits) forms.push_back(form);
    }
  return forms;
}

std::vector<Tactic> tactics_of(const Problem& problem, const ConvShape& shape, const Properties& properties) {
  std::vector<Tactic> list;
  for (const Form& form : forms_of(shape)) {
    if (shared_of(shape, form) > properties.shared_bytes) continue;
    Source source = source_from({"depthwise.cuh", "depthwise_tile.cu"}, epilogue_defines(conv_epilogue(problem)));
    for (const std::string& word :
         {define_type("ELEMENT", shape.x_type), define_type("TY", shape.y_type), define("TW", form.width),
          define("STRIPS", form.strips), define("TH", form.height), define("GROUP", form.group),
          define("KH", shape.kernel_h), define("KW", shape.kernel_w), define("SH", shape.stride_h),
          define("SW", shape.stride_w)})
      source.defines.push_back(word);
    list.push_back({"tile " + std::to_string(form.height) + "x" + std::to_string(form.width * form.strips) + " of " +
                        std::to_string(form.group),
                    {source},
                    {form.width, form.strips, form.height, form.group}});
  }
  return list;
}

Reason refuses_tile(const Problem& problem, const Properties& properties) {
  if (const Reason reason = refuses(problem, properties)) return reason;
  ConvShape shape{};
  conv_shape(problem, shape);
  return tactics_of(problem, shape, properties).empty() ? Reason(Reason::no_tile) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  conv_shape(problem, shape);
  return tactics_of(problem, shape, properties);
}

class TileStep : public DepthwiseBase {
 public:
  TileStep(const Problem& problem, const ConvShape& shape, Device& device, const Tactic& tactic, const Form& form)
      : DepthwiseBase(problem, shape, device, tactic.sources[0], "depthwise_tile",
                      static_cast<int>(shared_of(shape, form))) {
    const int64_t along = ceil_div(shape.out_w, form.width * form.strips), down = ceil_div(shape.out_h, form.height);
    params_.strips = static_cast<int>(along), params_.count = static_cast<int>(down);
    grid_ = {shape.batch * along * down * ceil_div(shape.in_c, form.group), 1, 1, form.threads(),
             static_cast<int>(shared_of(shape, form))};
  }
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  ConvShape shape{};
  conv_shape(problem, shape);
  const Form form{tactic.numbers[0], tactic.numbers[1], tactic.numbers[2], tactic.numbers[3]};
  return std::make_unique<TileStep>(problem, shape, device, tactic, form);
}

const KernelRegistrar registered({"Conv", "tile", 4, refuses_tile, tactics, make});

}  // namespace
}  // namespace tenon::cuda::depthwise_tile

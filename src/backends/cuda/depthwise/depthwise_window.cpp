// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/depthwise/depthwise.h"

namespace tenon::cuda::depthwise_window {
namespace {

/// Rows of a warp, which makes 8 columns, warps along columns and rows, and blocks of a multiprocessor.
struct Form {
  int rows, along, down, blocks;
};

constexpr int columns = 8, group = 32, most_warps = 8;

Reason refuses(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  if (const Reason reason = refuses_diagonal(problem, properties, shape)) return reason;
  constexpr int64_t most_taps = 49;
  const int64_t taps = int64_t{shape.kernel_h} * shape.kernel_w;
  return taps <= 9          ? Reason(Reason::window, "of more than 9 taps")
         : taps > most_taps ? Reason(Reason::too_many, most_taps, "taps")
                            : Reason();
}

/// Of a block, with the tile that it computes and the next one.
int64_t shared_of(const ConvShape& shape, const Form& form) {
  const int64_t height = (form.rows * form.down - 1) * shape.stride_h + shape.kernel_h;
  const int64_t width = (columns * form.along - 1) * shape.stride_w + shape.kernel_w;
  const int64_t taps = int64_t{shape.kernel_h} * shape.kernel_w;
  return 2 * group * ((height * width + taps) * 2 + static_cast<int64_t>(sizeof(float)));
}

/// As many blocks as shared memory and registers hold; 0 where none fits.
int blocks_of(const ConvShape& shape, const Form& form, const Properties& properties) {
  const int warps = form.rows == 8 ? 12 : 16;
  const int64_t by_shared = (properties.shared_bytes + 1024) / (shared_of(shape, form) + 1024);
  return static_cast<int>(std::min<int64_t>(by_shared, warps / (form.along * form.down)));
}

std::vector<Form> forms_of(const ConvShape& shape, const Properties& properties) {
  const auto across = static_cast<int>(std::min<int64_t>(ceil_div(shape.out_w, columns), most_warps));
  std::vector<Form> list;
  for (const int rows : {8, 4})
    for (const int along : {(across + 1) / 2, across})
      for (const int down : {1, 2, 4}) {
        Form form{rows, along, down, 0};
        const bool known = std::any_of(list.begin(), list.end(), [&](const Form& other) {
          return other.rows == rows && other.along == along && other.down == down;
        });
        const bool covers = rows / 2 < shape.out_h && (down == 1 || (down - 1) * rows < shape.out_h);
        if (known || !covers || along * down > most_warps) continue;
        form.blocks = blocks_of(shape, form, properties);
        if (form.blocks > 0) list.push_back(form);
      }
  return list;
}

Reason refuses_window(const Problem& problem, const Properties& properties) {
  if (const Reason reason = refuses(problem, properties)) return reason;
  ConvShape shape{};
  conv_shape(problem, shape);
  return forms_of(shape, properties).empty() ? Reason(Reason::no_tile) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  conv_shape(problem, shape);
  std::vector<Tactic> list;
  for (const Form& form : forms_of(shape, properties)) {
    Source source = source_from({"diagonal.cuh", "depthwise_diagonal.cuh", "depthwise_window.cu"},
                                epilogue_defines(conv_epilogue(problem)));
    for (const std::string& word :
         {define("R", form.rows), define("X", form.along), define("Y", form.down), define("BLOCKS", form.blocks),
          define("KH", shape.kernel_h), define("KW", shape.kernel_w), define("STRIDE", shape.stride_h)})
      source.defines.push_back(word);
    const std::string size = std::to_string(form.rows * form.down) + "x" + std::to_string(columns * form.along);
    list.push_back({"diagonal " + size + " by " + std::to_string(form.rows),
                    {source},
                    {form.rows, form.along, form.down, form.blocks}});
  }
  return list;
}

class WindowStep : public DiagonalBase {
 public:
  WindowStep(const Problem& problem, const ConvShape& shape, Device& device, const Tactic& tactic, const Form& form)
      : DiagonalBase(problem, shape, device, tactic.sources[0], "depthwise_window", form.rows * form.down,
                     columns * form.along, static_cast<int>(shared_of(shape, form))) {
    const int64_t blocks = int64_t{device.properties().multiprocessors} * form.blocks;
    grid_ = {std::min<int64_t>(blocks, params_.units), 1, 1, 32 * form.along * form.down,
             static_cast<int>(shared_of(shape, form))};
  }
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  ConvShape shape{};
  conv_shape(problem, shape);
  const Form form{tactic.numbers[0], tactic.numbers[1], tactic.numbers[2], tactic.numbers[3]};
  return std::make_unique<WindowStep>(problem, shape, device, tactic, form);
}

const KernelRegistrar registered({"Conv", "diagonal window", 3, refuses_window, tactics, make});

}  // namespace
}  // namespace tenon::cuda::depthwise_window

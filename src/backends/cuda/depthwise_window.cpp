#include <algorithm>

#include "backends/cuda/depthwise.h"

namespace tenon::cuda {
namespace {

/// Rows of a warp, which makes 8 columns, and warps along columns and rows.
struct Form {
  int rows, along, down;
};

constexpr int columns = 8, group = 32, most_warps = 8;

const char* refuses(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  if (const char* reason = refuses_diagonal(problem, properties, shape)) return reason;
  constexpr int64_t most_taps = 49;
  const int64_t taps = int64_t{shape.kernel_h} * shape.kernel_w;
  return taps <= 9 ? "a small window" : taps > most_taps ? "too many taps" : nullptr;
}

int64_t shared_of(const ConvShape& shape, const Form& form) {
  const int64_t height = (form.rows * form.down - 1) * shape.stride_h + shape.kernel_h;
  const int64_t width = (columns * form.along - 1) * shape.stride_w + shape.kernel_w;
  return (height * width + shape.kernel_h * shape.kernel_w) * group * 2;
}

std::vector<Form> forms_of(const ConvShape& shape, const Properties& properties) {
  const auto across = static_cast<int>(std::min<int64_t>(ceil_div(shape.out_w, columns), most_warps));
  std::vector<Form> list;
  for (const int rows : {4, 2})
    for (const int along : {(across + 1) / 2, across})
      for (const int down : {2, 1, 4}) {
        const Form form{rows, along, down};
        const bool covers = down == 1 || (down - 1) * rows < shape.out_h;
        const bool known = std::any_of(list.begin(), list.end(), [&](const Form& other) {
          return other.rows == rows && other.along == along && other.down == down;
        });
        if (covers && !known && along * down <= most_warps && shared_of(shape, form) <= properties.shared_bytes)
          list.push_back(form);
      }
  return list;
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  conv_shape(problem, shape);
  std::vector<Tactic> list;
  for (const Form& form : forms_of(shape, properties)) {
    Source source{"depthwise_window.cu", epilogue_defines(conv_epilogue(problem)), ""};
    for (const std::string& word :
         {define("R", form.rows), define("X", form.along), define("Y", form.down), define("KH", shape.kernel_h),
          define("KW", shape.kernel_w), define("STRIDE", shape.stride_h)})
      source.defines.push_back(word);
    const std::string size = std::to_string(form.rows * form.down) + "x" + std::to_string(columns * form.along);
    list.push_back(
        {"diagonal " + size + " by " + std::to_string(form.rows), {source}, {form.rows, form.along, form.down}});
  }
  return list;
}

class WindowStep : public DiagonalBase {
 public:
  WindowStep(const Problem& problem, const ConvShape& shape, Device& device, const Tactic& tactic, const Form& form)
      : DiagonalBase(problem, shape, device, tactic.sources[0], "depthwise_window", form.rows * form.down,
                     columns * form.along, static_cast<int>(shared_of(shape, form))) {
    grid_ = {params_.units, 1, 1, 32 * form.along * form.down, static_cast<int>(shared_of(shape, form))};
  }
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  ConvShape shape{};
  conv_shape(problem, shape);
  const Form form{tactic.numbers[0], tactic.numbers[1], tactic.numbers[2]};
  return std::make_unique<WindowStep>(problem, shape, device, tactic, form);
}

const KernelRegistrar registered({"Conv", "diagonal window", 5, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda

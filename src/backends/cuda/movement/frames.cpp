// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/movement/frames_params.h"
#include "backends/cuda/runtime/simple_step.h"

/// What windows of frames see as channels, channels last, whole vectors at a time.
namespace tenon::cuda::frames {
namespace {

using Params = FramesParams;
constexpr int64_t vector_bytes = 16;

int64_t own_bytes(const Problem& problem) {
  return problem.inputs[0].dims.back() * static_cast<int64_t>(size_of(problem.inputs[0].dtype));
}

/// The longest load that all that is read is whole numbers of.
int64_t piece_of(const Problem& problem) {
  const Operand& x = problem.inputs[0];
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  for (int64_t piece = vector_bytes; piece > size; piece /= 2) {
    bool fits = x.aligned && own_bytes(problem) % piece == 0;
    for (size_t axis = 0; axis < 4; ++axis) fits = fits && x.strides[axis] * size % piece == 0;
    if (fits) return piece;
  }
  return size;
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (x.dims.rank() != 5 || problem.node->integer("axis", 0) != 1 || problem.node->integer("along", 0) != 4)
    return {Reason::shape, "the input", "frames, rows, pixels and channels"};
  if (y.dims.elements() == 0) return Reason::empty;
  if (x.strides[4] != 1) return {Reason::not_contiguous, "channels"};
  if (!y.dense()) return {Reason::not_contiguous, "the result"};
  const auto size = static_cast<int64_t>(size_of(y.dtype));
  if (!y.aligned || y.dims[4] * size % vector_bytes != 0) return {Reason::unaligned, "pixels of the result"};
  return y.dims.elements() * size / vector_bytes >= int64_t{1} << 31 ? Reason(Reason::too_large) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const Operand& y = problem.outputs[0];
  const int64_t size = static_cast<int64_t>(size_of(y.dtype)), own = own_bytes(problem);
  return {{"vectors",
           {{"frames.cu",
             {define("OWN", own), define("SEEN", own * problem.node->integer("count", 1)),
              define("CHUNKS", y.dims[4] * size / vector_bytes), define("PIECE", piece_of(problem)),
              define("WIDTH", y.dims[3]), define("HEIGHT", y.dims[2]), define("FRAMES", y.dims[1])},
             ""}},
           {}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  Params params{};
  params.image = x.strides[0] * size, params.row = x.strides[2] * size, params.pixel = x.strides[3] * size;
  params.frame = x.strides[1] * size * problem.node->integer("stride", 1);
  params.tap = x.strides[1] * size * problem.node->integer("step", 1);
  params.count = static_cast<unsigned>(y.dims.elements() * size / vector_bytes);
  return simple_step<1>(device, tactic, "frames", params, grid_for(params.count));
}

const KernelRegistrar registered({"tenon:Frames", "frames", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::frames

#include "backends/cuda/hopper.h"

#include <algorithm>

namespace tenon::cuda {
namespace {

/// D[64 x width] += A[64 x 16] * B[width x 16]^T, both in shared memory with depth contiguous.
std::string product_text(int width) {
  const int registers = width / 2;
  const auto list = [&](const char* before, const char* after) {
    std::string text;
    for (int at = 0; at < registers; ++at) text += (at ? ", " : "") + std::string(before) + std::to_string(at) + after;
    return text;
  };
  const auto operand = [&](int at) { return "%" + std::to_string(registers + at); };
  const std::string w = std::to_string(width);
  return "template <> struct Mma<" + w + "> {\n  static __device__ __forceinline__ void run(float (&d)[" +
         std::to_string(registers) + "], u64 a, u64 b, int add) {\n    asm volatile(\"{.reg .pred p; setp.ne.b32 p, " +
         operand(2) + ", 0; wgmma.mma_async.sync.aligned.m64n" + w + "k16.f32.f16.f16 {" + list("%", "") + "}, " +
         operand(0) + ", " + operand(1) + ", p, 1, 1, 0, 0;}\"\n      : " + list("\"+f\"(d[", "])") +
         " : \"l\"(a), \"l\"(b), \"r\"(add));\n  }\n};\n";
}

int swizzle_of(int bytes) {
  return bytes == 128  ? constants::map_swizzle_128
         : bytes == 64 ? constants::map_swizzle_64
         : bytes == 32 ? constants::map_swizzle_32
                       : constants::map_swizzle_none;
}

constexpr int element = 2;

}  // namespace

Source hopper_source(const std::string& file, const std::vector<int>& widths, std::vector<std::string> defines) {
  std::string text(kernel_text("hopper.cuh"));
  text += "template <int WIDTH> struct Mma;\n";
  for (const int width : widths) text += product_text(width);
  return {file, std::move(defines), text + std::string(kernel_text(file))};
}

TensorMap tiled_map(Address data, const std::vector<int64_t>& dims, const std::vector<int64_t>& strides,
                    const std::vector<int>& box) {
  uint64_t sizes[5], bytes[5];
  uint32_t boxes[5], steps[5];
  for (size_t at = 0; at < dims.size(); ++at) {
    sizes[at] = static_cast<uint64_t>(dims[at]);
    boxes[at] = static_cast<uint32_t>(box[at]);
    steps[at] = 1;
    if (at > 0) bytes[at - 1] = static_cast<uint64_t>(strides[at]) * element;
  }
  TensorMap map{};
  check(driver().TensorMapEncodeTiled(&map, constants::map_f16, static_cast<uint32_t>(dims.size()),
                                      reinterpret_cast<void*>(data), sizes, bytes, boxes, steps, 0,
                                      swizzle_of(box[0] * element), constants::map_l2_256, 0),
        "cuTensorMapEncodeTiled");
  return map;
}

TensorMap im2col_map(Address data, const ConvShape& s, int channels, int pixels) {
  const uint64_t sizes[] = {static_cast<uint64_t>(s.in_c), static_cast<uint64_t>(s.in_w), static_cast<uint64_t>(s.in_h),
                            static_cast<uint64_t>(s.batch)};
  const uint64_t bytes[] = {static_cast<uint64_t>(s.x[2]) * element, static_cast<uint64_t>(s.x[1]) * element,
                            static_cast<uint64_t>(s.x[0]) * element};
  const uint32_t steps[] = {1, static_cast<uint32_t>(s.stride_w), static_cast<uint32_t>(s.stride_h), 1};
  // The box of first positions: from the padding's corner to the last output's.
  const int lower[] = {-s.pad_left, -s.pad_top};
  const int upper[] = {static_cast<int>((s.out_w - 1) * s.stride_w - s.pad_left + 1 - s.in_w),
                       static_cast<int>((s.out_h - 1) * s.stride_h - s.pad_top + 1 - s.in_h)};
  TensorMap map{};
  check(driver().TensorMapEncodeIm2col(&map, constants::map_f16, 4, reinterpret_cast<void*>(data), sizes, bytes, lower,
                                       upper, static_cast<uint32_t>(channels), static_cast<uint32_t>(pixels), steps, 0,
                                       swizzle_of(channels * element), constants::map_l2_256, 0),
        "cuTensorMapEncodeIm2col");
  return map;
}

int slab_bytes(const ConvShape& shape) {
  const int64_t bytes = shape.in_c * element;
  for (const int slab : {128, 64})
    if (ceil_div(bytes, slab) * slab * 2 <= bytes * 3) return slab;
  return 32;
}

int64_t padded_channels(const ConvShape& shape, int slab) {
  return ceil_div(shape.in_c * element, slab) * slab / element;
}

std::vector<uint16_t> padded_weights(const std::vector<float>& weights, const ConvShape& shape, int slab, int64_t rows,
                                     const std::function<int64_t(int64_t)>& from) {
  const int64_t taps = int64_t{shape.kernel_h} * shape.kernel_w, padded = padded_channels(shape, slab);
  std::vector<uint16_t> packed(static_cast<size_t>(rows * taps * padded), 0);
  for (int64_t at = 0; at < rows; ++at) {
    const int64_t channel = from(at);
    if (channel >= shape.out_c) continue;
    const float* source = weights.data() + channel * shape.depth();
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t c = 0; c < shape.in_c; ++c)
        packed[(at * taps + tap) * padded + c] = f16_of(source[tap * shape.in_c + c]);
  }
  return packed;
}

bool is_pitched(const ConvShape& shape, const int64_t (&strides)[4]) {
  return (shape.out_h == 1 || strides[1] == shape.out_w * strides[2]) &&
         (shape.batch == 1 || strides[0] == shape.out_h * shape.out_w * strides[2]);
}

const char* refuses_maps(const Problem& problem, const ConvShape& shape, const Properties& properties) {
  if (properties.capability() != 90 || !driver().TensorMapEncodeIm2col) return "it needs compute capability 9.0";
  if (shape.x_type != DType::f16 || shape.y_type != DType::f16) return "only f16";
  if (shape.groups != 1 || shape.dilation_h != 1 || shape.dilation_w != 1) return "only one group without dilation";
  if (shape.stride_h != shape.stride_w || shape.stride_h > 4) return "strides differ or are large";
  if (shape.in_c % 8 || shape.out_c % 8 || shape.in_c < 16) return "channels are no multiple of 8";
  const bool residual = problem.inputs.size() > 3 && problem.inputs[3];
  if (shape.x[3] != 1 || shape.y[3] != 1 || (residual && shape.residual[3] != 1)) return "channels are not contiguous";
  for (int at = 0; at < 3; ++at)
    if (shape.x[at] % 8 || shape.y[at] % 8 || shape.residual[at] % 8) return "pixels are not aligned";
  if (!problem.inputs[0].aligned || !problem.outputs[0].aligned || (residual && !problem.inputs[3].aligned))
    return "a tensor is not aligned";
  if (!is_pitched(shape, shape.y) || (residual && !is_pitched(shape, shape.residual))) return "pixels have gaps";
  const int64_t bottom = (shape.out_h - 1) * shape.stride_h - shape.pad_top + 1 - shape.in_h;
  const int64_t right = (shape.out_w - 1) * shape.stride_w - shape.pad_left + 1 - shape.in_w;
  if (std::max({shape.kernel_h, shape.kernel_w, shape.pad_top, shape.pad_left}) > 100 || bottom < -128 ||
      right < -128 || bottom > 127 || right > 127)
    return "the window is too large";
  return nullptr;
}

}  // namespace tenon::cuda

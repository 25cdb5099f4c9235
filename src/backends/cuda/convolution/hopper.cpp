// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/convolution/hopper.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tenon::cuda {
namespace {

int swizzle_of(int bytes) {
  return bytes == 128  ? constants::map_swizzle_128
         : bytes == 64 ? constants::map_swizzle_64
         : bytes == 32 ? constants::map_swizzle_32
                       : constants::map_swizzle_none;
}

int map_type(DType type) {
  return size_of(type) == 1 ? constants::map_u8 : type == DType::f32 ? constants::map_f32 : constants::map_f16;
}
/// 10 bits of mantissa, to nearest with ties away, as cvt.rna.tf32 does.
float tf32_of(float value) { return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x1000u) & ~0x1fffu); }
int64_t element_of(const ConvShape& shape) { return static_cast<int64_t>(size_of(shape.x_type)); }

}  // namespace

std::string product_text(int width, DType type, bool transposed) {
  const bool bytes = type == DType::u8, wide = type == DType::f32 || type == DType::f8e4m3fn;
  const std::string sum = bytes ? "int" : "float", letter = bytes ? "r" : "f";
  const std::string types = type == DType::f32    ? "k8.f32.tf32.tf32"
                            : wide                ? "k32.f32.e4m3.e4m3"
                            : type == DType::bf16 ? "k16.f32.bf16.bf16"
                            : !bytes              ? "k16.f32.f16.f16"
                            : transposed              ? "k32.s32.s8.u8"
                                                  : "k32.s32.u8.s8";
  const int registers = width / 2;
  const auto list = [&](const char* before, const char* after) {
    std::string text;
    for (int at = 0; at < registers; ++at) text += (at ? ", " : "") + std::string(before) + std::to_string(at) + after;
    return text;
  };
  const auto operand = [&](int at) { return "%" + std::to_string(registers + at); };
  const std::string w = std::to_string(width);
  return "template <> struct Mma<" + w + "> {\n  static __device__ __forceinline__ void run(" + sum + " (&d)[" +
         std::to_string(registers) + "], u64 a, u64 b, int add) {\n    asm volatile(\"{.reg .pred p; setp.ne.b32 p, " +
         operand(2) + ", 0; wgmma.mma_async.sync.aligned.m64n" + w + types + " {" + list("%", "") + "}, " + operand(0) +
         ", " + operand(1) + ", p" +
         (bytes  ? ""
          : wide ? ", 1, 1"
                 : ", 1, 1, 0, 0") +
         ";}\"\n      : " + list(("\"+" + letter + "\"(d[").c_str(), "])") +
         " : \"l\"(a), \"l\"(b), \"r\"(add));\n  }\n};\n";
}

Source hopper_source(const Problem& problem, const ConvShape& shape, const std::string& file,
                     const std::vector<int>& widths, std::vector<std::string> defines) {
  const bool bytes = is_int8(problem);
  std::string text;
  std::vector<std::string> more;
  int zero = 0;
  if (bytes) {
    Int8Conv conv;
    int8_conv(problem, conv);
    more = int8_defines(conv);
    text = kernel_text("int8.cuh");
    zero = conv.x_zero == 0 ? 0 : is_loose(conv) ? conv.has_borders() ? 3 : 0 : conv.has_borders() ? 2 : 1;
  } else {
    more = epilogue_defines(conv_epilogue(problem));
    more.push_back(define("LISTED", 0));
    if (shape.x_type == DType::bf16) more.push_back("BF16=1");
  }
  for (const std::string& word : {define("BYTES", bytes), define("EB", element_of(shape)),
                                  define("ODD", is_odd(problem, shape)),
                                  define("OB", static_cast<int64_t>(size_of(shape.y_type))), define("ZP", zero)})
    more.push_back(word);
  defines.insert(defines.end(), more.begin(), more.end());
  text += "template <int WIDTH> struct Mma;\n";
  const bool transposed = std::find(defines.begin(), defines.end(), "SWAP=1") != defines.end();
  for (const int width : widths) text += product_text(width, shape.x_type, transposed);
  return {file, std::move(defines), text + std::string(kernel_text(file))};
}

TensorMap tiled_map(Address data, DType type, const std::vector<int64_t>& dims, const std::vector<int64_t>& strides,
                    const std::vector<int>& box) {
  uint64_t sizes[5], bytes[5];
  uint32_t boxes[5], steps[5];
  for (size_t at = 0; at < dims.size(); ++at) {
    sizes[at] = static_cast<uint64_t>(dims[at]);
    boxes[at] = static_cast<uint32_t>(box[at]);
    steps[at] = 1;
    if (at > 0) bytes[at - 1] = static_cast<uint64_t>(strides[at]) * size_of(type);
  }
  TensorMap map{};
  check(driver().TensorMapEncodeTiled(&map, map_type(type), static_cast<uint32_t>(dims.size()),
                                      reinterpret_cast<void*>(data), sizes, bytes, boxes, steps, 0,
                                      swizzle_of(box[0] * static_cast<int>(size_of(type))), constants::map_l2_256, 0),
        "cuTensorMapEncodeTiled");
  return map;
}

TensorMap im2col_map(Address data, const ConvShape& s, int channels, int pixels) {
  const auto element = static_cast<uint64_t>(element_of(s));
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
  check(driver().TensorMapEncodeIm2col(&map, map_type(s.x_type), 4, reinterpret_cast<void*>(data), sizes, bytes, lower,
                                       upper, static_cast<uint32_t>(channels), static_cast<uint32_t>(pixels), steps, 0,
                                       swizzle_of(channels * static_cast<int>(element)), constants::map_l2_256, 0),
        "cuTensorMapEncodeIm2col");
  return map;
}

int slab_bytes(const ConvShape& shape) {
  const int64_t bytes = shape.in_c * element_of(shape);
  for (const int slab : {128, 64})
    if (ceil_div(bytes, slab) * slab * 2 <= bytes * 3) return slab;
  return 32;
}

int64_t padded_channels(const ConvShape& shape, int slab) {
  return ceil_div(shape.in_c * element_of(shape), slab) * slab / element_of(shape);
}

namespace {

/// Rows of weights with their channels padded to whole slabs.
template <class T>
std::vector<T> padded_rows(const std::vector<T>& weights, const ConvShape& shape, int slab, int64_t rows,
                           const std::function<int64_t(int64_t)>& row_of) {
  const int64_t taps = int64_t{shape.kernel_h} * shape.kernel_w, padded = padded_channels(shape, slab);
  std::vector<T> packed(static_cast<size_t>(rows * taps * padded), 0);
  for (int64_t at = 0; at < rows; ++at) {
    const int64_t channel = row_of(at);
    if (channel >= shape.out_c) continue;
    const T* source = weights.data() + channel * shape.depth();
    for (int64_t tap = 0; tap < taps; ++tap)
      std::copy(source + tap * shape.in_c, source + (tap + 1) * shape.in_c,
                packed.begin() + (at * taps + tap) * padded);
  }
  return packed;
}

/// Lists that go to the device together.
struct Bundle {
  std::vector<std::byte> bytes;
  template <class T>
  size_t add(const std::vector<T>& list) {
    const size_t begin = (bytes.size() + 127) / 128 * 128;
    bytes.resize(begin + list.size() * sizeof(T));
    if (!list.empty()) std::memcpy(bytes.data() + begin, list.data(), list.size() * sizeof(T));
    return begin;
  }
};

/// Weights of floats, rounded; where they begin.
size_t add_weights(Bundle& bundle, const Problem& problem, const ConvShape& shape, int slab, int64_t rows,
                   const std::function<int64_t(int64_t)>& row_of) {
  std::vector<float> weights = conv_weights(problem, shape);
  if (shape.x_type == DType::f32) {
    std::transform(weights.begin(), weights.end(), weights.begin(), tf32_of);
    return bundle.add(padded_rows(weights, shape, slab, rows, row_of));
  }
  std::vector<uint16_t> narrow(weights.size());
  std::transform(weights.begin(), weights.end(), narrow.begin(),
                 [&](float weight) { return bits16_of(weight, shape.x_type); });
  return bundle.add(padded_rows(narrow, shape, slab, rows, row_of));
}

}  // namespace

HopperConstants upload_constants(const Problem& problem, const ConvShape& shape, int slab, int64_t rows, int64_t tile,
                                 const std::function<int64_t(int64_t)>& row_of,
                                 const std::function<int64_t(int64_t)>& number_of, Buffer& buffer, bool weights) {
  HopperConstants result;
  result.rows = rows;
  result.depth = int64_t{shape.kernel_h} * shape.kernel_w * padded_channels(shape, slab);
  Bundle bundle;
  std::vector<std::vector<uint32_t>> lists;  // by channel, as bits
  const auto add_list = [&](const auto& list) {
    lists.emplace_back(list.size());
    std::memcpy(lists.back().data(), list.data(), list.size() * 4);
  };
  Borders borders;
  size_t weights_at = 0;
  if (is_int8(problem)) {
    Int8Conv conv;
    int8_conv(problem, conv);
    const std::vector<int8_t> weights = int8_weights(problem, shape);
    weights_at = bundle.add(padded_rows(weights, shape, slab, rows, row_of));
    const std::vector<int32_t> zeros = zero_sums(conv, weights);
    if (is_loose(conv))
      for (size_t n = 0; n < zeros.size(); ++n) conv.bias[n] += static_cast<float>(double{conv.scale[n]} * zeros[n]);
    add_list(conv.bias), add_list(conv.scale);
    if (conv.x_zero != 0 && !is_loose(conv)) add_list(zeros);
    if (!conv.inverses.empty()) add_list(conv.inverses);
    if (!conv.inverses.empty() && conv.has_residual()) add_list(conv.r_scales);
    if (conv.has_borders()) borders_of(conv, weights, rows, borders);
    result.finish = finish_of(conv);
  } else {
    if (weights) weights_at = add_weights(bundle, problem, shape, slab, rows, row_of);
    add_list(conv_bias(problem, shape));
    const ops::Epilogue epilogue = conv_epilogue(problem);
    result.finish.alpha = epilogue.alpha, result.finish.beta = epilogue.beta;
  }
  std::vector<uint32_t> numbers(static_cast<size_t>(rows) * lists.size(), 0);
  for (int64_t at = 0; at < rows; ++at)
    for (size_t list = 0; list < lists.size(); ++list)
      if (const int64_t channel = number_of(at); channel < shape.out_c)
        numbers[static_cast<size_t>(at / tile * tile) * lists.size() + list * static_cast<size_t>(tile) +
                static_cast<size_t>(at % tile)] = lists[list][static_cast<size_t>(channel)];
  const size_t numbers_at = bundle.add(numbers), sums_at = bundle.add(borders.sums);
  const size_t rows_at = bundle.add(borders.rows), columns_at = bundle.add(borders.columns);
  bundle.bytes.resize((bundle.bytes.size() + 15) / 16 * 16);  // lists are read by chunks
  buffer = Buffer::kept(bundle.bytes.size());
  buffer.upload(bundle.bytes.data(), bundle.bytes.size());
  result.weights = buffer.address() + weights_at, result.numbers = buffer.address() + numbers_at;
  result.border_sums = buffer.address() + sums_at;
  result.classes = static_cast<int>(borders.sums.size() / static_cast<size_t>(rows));
  result.border_rows = buffer.address() + rows_at, result.border_columns = buffer.address() + columns_at;
  return result;
}

int most_lists(const Problem& problem) { return !is_int8(problem) ? 1 : has_listed_scales(problem) ? 5 : 3; }

bool is_one_row(const ConvShape& s) {
  return s.kernel_h * s.kernel_w == 1 && s.stride_h == 1 && s.pad_top == 0 && s.pad_left == 0 && s.in_h == s.out_h &&
         s.in_w == s.out_w && is_pitched(s, s.x);
}

namespace {

int64_t chunk_of(DType type) { return 16 / static_cast<int64_t>(size_of(type)); }

}  // namespace

bool is_odd(const Problem& problem, const ConvShape& shape) {
  const int64_t chunk = chunk_of(shape.y_type);
  return shape.out_c % chunk || shape.y[0] % chunk || shape.y[1] % chunk || shape.y[2] % chunk ||
         !problem.outputs[0].aligned;
}

Reason refuses_maps(const Problem& problem, const ConvShape& shape, const Properties& properties, bool tf32,
                    bool any_result) {
  if (properties.capability() != 90 || !driver().TensorMapEncodeIm2col) return {Reason::capability, "it", "9.0"};
  const bool bytes = is_int8(problem);
  any_result &= !bytes;
  if (tf32    ? shape.x_type != DType::f32 || shape.y_type != DType::f32
      : bytes ? size_of(shape.x_type) != 1 || shape.y_type == DType::f32
              : !is_16_bit(shape.x_type) ||
                    (shape.y_type != shape.x_type && !(any_result && shape.y_type == DType::f32)))
    return tf32 ? Reason(Reason::element_type, "elements", "f32")
                : Reason(Reason::element_type, "elements", "f16, bf16 or bytes");
  if (shape.groups != 1) return Reason::grouped;
  if (shape.dilation_h != 1 || shape.dilation_w != 1) return Reason::dilated;
  if (shape.stride_h != shape.stride_w || shape.stride_h > 4) return {Reason::strides, "equal and at most 4"};
  // Of the input's channels pixels alone begin at such places: what a map holds of them ends where they do.
  if (shape.in_c < 16 || (!any_result && (shape.in_c % chunk_of(shape.x_type) || is_odd(problem, shape))))
    return {Reason::not_multiple, "channels", "16 bytes"};
  const bool residual = problem.inputs.size() > 3 && problem.inputs[3];
  if (residual && problem.inputs[3].dtype != shape.y_type)
    return {Reason::element_type, "the residual", "the result's type"};
  if (shape.x[3] != 1 || shape.y[3] != 1 || (residual && shape.residual[3] != 1))
    return {Reason::not_contiguous, "channels"};
  if (residual && is_odd(problem, shape)) return Reason::residual;
  for (int at = 0; at < 3; ++at)
    if (shape.x[at] % chunk_of(shape.x_type) || shape.residual[at] % chunk_of(shape.y_type))
      return {Reason::unaligned, "pixels"};
  if (!problem.inputs[0].aligned || (residual && !problem.inputs[3].aligned)) return {Reason::unaligned, "operand"};
  if (!is_pitched(shape, shape.y) || (residual && !is_pitched(shape, shape.residual))) return {Reason::gaps, "pixels"};
  if (bytes && !has_few_borders(shape)) return {Reason::padding, "small"};
  const int64_t bottom = (shape.out_h - 1) * shape.stride_h - shape.pad_top + 1 - shape.in_h;
  const int64_t right = (shape.out_w - 1) * shape.stride_w - shape.pad_left + 1 - shape.in_w;
  if (std::max({shape.kernel_h, shape.kernel_w, shape.pad_top, shape.pad_left}) > 100 || bottom < -128 ||
      right < -128 || bottom > 127 || right > 127)
    return {Reason::window, "of at most 100x100 taps"};
  return {};
}

}  // namespace tenon::cuda

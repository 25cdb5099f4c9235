// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <vector>

#include "backends/cuda/convolution/int8_conv.h"

/// What the kernels for compute capability 9.0a need of the host: instruction texts and tensor maps.
namespace tenon::cuda {

/// Mma<width>: D[64 x width] += A[64 x 32 bytes] * B[width x 32 bytes]^T, both in shared memory with depth contiguous;
/// `transposed`: A is of i8 and B of u8.
std::string product_text(int width, DType type, bool transposed);

/// A kernel file of this family behind the products of these widths. The macros BYTES, EB, OB, ZP
/// and those of the epilogue are added. Products of f32 are in tf32.
Source hopper_source(const Problem& problem, const ConvShape& shape, const std::string& file,
                     const std::vector<int>& widths, std::vector<std::string> defines);

/// A tensor of f16, u8 or f32 in boxes; strides in elements, the first dimension contiguous. Swizzled over the box's
/// first row.
TensorMap tiled_map(Address data, DType type, const std::vector<int64_t>& dims, const std::vector<int64_t>& strides,
                    const std::vector<int>& box);
/// The input of a convolution, `channels` of `pixels` output positions at a time.
TensorMap im2col_map(Address data, const ConvShape& shape, int channels, int pixels);

/// Bytes of a slab of depth: the longest swizzled row that does not waste more than a third of its products. Channels
/// are padded to whole slabs; what lies behind the last one reads as zeros.
int slab_bytes(const ConvShape& shape);
/// Channels with that padding.
int64_t padded_channels(const ConvShape& shape, int slab);
/// What a kernel of this family holds of a problem's constants.
struct HopperConstants {
  Address weights = 0, numbers = 0, border_sums = 0, border_rows = 0, border_columns = 0;
  int64_t rows = 0, depth = 0;  // of the weights, in elements
  int classes = 0;              // of borders
  Finish finish{};
};
/// Weights as [rows][taps][padded channels], row `at` being channel `row_of(at)`, zeros behind the last; lists of
/// numbers by channel (the bias; of bytes the scale, what the zero point adds where it is not 0, and scales of the
/// result and the residual where they are by channel), entry `at` being
/// channel `number_of(at)`, in tiles of `tile` channels with all lists of a tile together. Sums of borders are in the
/// order of channels, `rows` a class. Without `weights` all but them, which then come from elsewhere.
HopperConstants upload_constants(const Problem& problem, const ConvShape& shape, int slab, int64_t rows, int64_t tile,
                                 const std::function<int64_t(int64_t)>& row_of,
                                 const std::function<int64_t(int64_t)>& number_of, Buffer& buffer, bool weights = true);

/// How many lists of numbers there may be.
int most_lists(const Problem& problem);

/// Whether a tensor map can describe it: f16 or bytes, or f32 for `tf32`; contiguous channels, pixels at multiples of
/// 16 bytes. `any_result`: no map is needed of results that is_odd(), and they may be f32 where operands are f16.
Reason refuses_maps(const Problem& problem, const ConvShape& shape, const Properties& properties, bool tf32 = false,
                    bool any_result = false);
/// Whether results do not lie at multiples of 16 bytes, or channels are no multiple of that.
bool is_odd(const Problem& problem, const ConvShape& shape);
/// Whether each pixel of the input is one of the result and they follow each other at one pitch: a map of two axes
/// does.
bool is_one_row(const ConvShape& shape);

}  // namespace tenon::cuda

#pragma once
#include <functional>
#include <vector>

#include "backends/cuda/convolution.h"

/// What the kernels for compute capability 9.0a need of the host: instruction texts and tensor maps.
namespace tenon::cuda {

/// A kernel file of this family: hopper.cuh, the products of these widths, then the file.
Source hopper_source(const std::string& file, const std::vector<int>& widths, std::vector<std::string> defines);

/// A tensor of f16 in boxes; strides in elements, the first dimension contiguous. Swizzled over the box's first row.
TensorMap tiled_map(Address data, const std::vector<int64_t>& dims, const std::vector<int64_t>& strides,
                    const std::vector<int>& box);
/// The input of a convolution, `channels` of `pixels` output positions at a time.
TensorMap im2col_map(Address data, const ConvShape& shape, int channels, int pixels);

/// Bytes of a slab of depth: the longest swizzled row that does not waste more than a third of its products. Channels
/// are padded to whole slabs; what lies behind the last one reads as zeros.
int slab_bytes(const ConvShape& shape);
/// Channels with that padding.
int64_t padded_channels(const ConvShape& shape, int slab);
/// Weights as [rows][taps][padded channels] in f16, row `at` being channel `from(at)`; rows behind the last are zeros.
std::vector<uint16_t> padded_weights(const std::vector<float>& weights, const ConvShape& shape, int slab, int64_t rows,
                                     const std::function<int64_t(int64_t)>& from);

/// Whether a tensor map can describe it: f16, contiguous channels, pixels at multiples of 16 bytes.
const char* refuses_maps(const Problem& problem, const ConvShape& shape, const Properties& properties);
/// Whether pixels of the result (and residual) follow each other at one pitch.
bool is_pitched(const ConvShape& shape, const int64_t (&strides)[4]);

}  // namespace tenon::cuda

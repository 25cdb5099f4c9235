// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <string>
#include <vector>

/// What a model of images takes beside the image.
namespace tenon::cli {

/// The input that takes the image: of rank 4, or of rank 3 without a batch; all others must be companions that
/// fill_companion knows. Throws Error(unsupported) naming the model.
size_t image_input(const std::vector<TensorInfo>& infos, const std::string& model);

/// The sizes of a companion for an image input of this batch and these sides.
std::vector<int64_t> companion_sizes(const TensorInfo& info, int64_t batch, int64_t height, int64_t width);

/// "orig_target_sizes" [N,2], to which RT-DETR scales its boxes, becomes width and height of the input, so that boxes
/// lie in its pixels; "pixel_mask" [N,h,w], which tells DETR the border, becomes ones.
void fill_companion(const TensorInfo& info, Tensor tensor, int64_t height, int64_t width);

}  // namespace tenon::cli

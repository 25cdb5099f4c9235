// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <string>

#include "base/random_array.h"

namespace tenon::cli {

/// Reads an array by its ending: .npy, .npz (FILE.npz:KEY), .pb (ONNX TensorProto; a sequence where `dtype` says so).
/// Throws Error.
Tensor read_array(const std::string& path, DType dtype = DType::undefined);
/// The array as an input of type `dtype` takes it: floating types become each other, and so do int64 and int32, where
/// the numbers fit, which a note on stderr says once for each file. Others stay as they are. Throws Error(usage) for
/// numbers that do not fit.
Tensor cast_to_input(const Tensor& array, DType dtype, const std::string& path);
/// The same into a tensor that is there, without a note.
void cast_into(Tensor& to, const Tensor& from);
/// "NAME.npy" with / and : as _.
std::string file_name_of(const std::string& tensor_name);

}  // namespace tenon::cli

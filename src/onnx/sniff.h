// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "onnx/wire.h"

namespace tenon::onnx {

/// What bytes that are no ONNX file look like ("a PNG image"); empty when nothing speaks against ONNX.
std::string looks_like(Bytes bytes);

}  // namespace tenon::onnx

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <span>
#include <string>

/// NumPy's array files (format 1.0 to 3.0): C order and little-endian when written, read in
/// any order. bf16 is written as u16, 8-bit floats as u8, 4-bit
/// types as 8-bit ones.
namespace tenon::cli {

/// Throws Error(io) where the bytes are no such file, Error(unsupported) for other element types. `name`
/// stands in errors.
Tensor parse_npy(std::span<const uint8_t> bytes, const std::string& name);
/// One array of a .npz file by its key ("" where there is but one). Throws the same.
Tensor parse_npz(std::span<const uint8_t> bytes, const std::string& key, const std::string& name);
std::vector<uint8_t> npy_bytes(const Tensor& tensor, const std::string& name);
/// Throws Error(unsupported) for strings and sequences, Error(io).
void write_npy(const std::string& path, const Tensor& tensor);

}  // namespace tenon::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/export.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Where an engine runs, and in which arithmetic.
namespace tenon {

/// One device of a backend.
struct TENON_API Device {
  std::string backend = "cpu";
  int index = 0;  ///< among the backend's devices
  Device() = default;
  /// "cpu", "cuda" for the backend's first device, "cuda:N" for another. Throws Error(usage) for text of another form,
  /// not for a device that is not there.
  Device(std::string_view text);
  Device(const char* text) : Device(std::string_view(text)) {}
  Device(const std::string& text) : Device(std::string_view(text)) {}
  /// The text that reads back.
  std::string str() const;
  friend bool operator==(const Device& a, const Device& b) { return a.backend == b.backend && a.index == b.index; }
};

enum class Precision : uint8_t {
  fp32,
  tf32,  ///< on a GPU: products of f32 round their operands to 10 bits of mantissa
  fp16,  ///< on a GPU: tensors between the large layers are f16, sums f32
  /// On a GPU the same with bf16: the range of f32 and 7 bits of mantissa. On a CPU with AMX or AVX512-BF16:
  /// convolutions and products round their operands to it, where that is measured faster; tensors and sums are f32.
  bf16,
  /// INT8, after calibration, where the structure of the model allows it and it is measured faster, which may be
  /// nowhere; elsewhere fp32, on a GPU fp16.
  int8,
  /// On a GPU of compute capability 8.9 or later: the same with e4m3 floats of 8 bits instead of integers, for
  /// convolutions of one group and products whose channels fill groups of 16; elsewhere fp16.
  fp8,
  /// The fastest by measurement: of fp32, on a GPU fp16, and, with calibration data, int8 within the error asked for;
  /// with a judge also bf16, layer by layer, on a CPU that has it.
  best,
};

/// "fp32", "tf32", …
TENON_API std::string_view name(Precision precision);
/// The precision of that name; nullopt where there is none.
TENON_API std::optional<Precision> precision_named(std::string_view name);
/// Whether its layers compute in 8 bits, after calibration: int8 and fp8.
constexpr bool is_quantised(Precision precision) { return precision == Precision::int8 || precision == Precision::fp8; }

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <string>

/// What tests mean by "the same" and by "close".
namespace tenon::test {

/// Element `at`, of any type that holds numbers.
double value(const Tensor& tensor, int64_t at);

/// How far a result may be from what is expected. The defaults ask for the same values.
struct Tolerance {
  /// Floats: |got - expected| <= element * (rms + |expected|) for each element, rms being that of the expected output,
  /// and the root mean square of all differences <= mean * rms.
  double element = 0, mean = 0;
  /// Integers and 8-bit floats: each element is at most so many of its type's steps away, and at most this share of
  /// the elements (or one element) at all. 8-bit floats, whose steps near zero are as small as one likes, may also be
  /// as far away as element * rms.
  int steps = 0;
  double moved = 0;
};

/// Compares type, sizes and every element, each by its own type; NaN equals NaN. Results in 16 bits may be compared
/// with f32. Returns what differs first and by how much; empty: nothing.
std::string difference(const Tensor& got, const Tensor& expected, const Tolerance& tolerance = {});

}  // namespace tenon::test

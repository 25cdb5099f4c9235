// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tenon::quant {

/// How often a tensor's values fall where, in constant memory, over any number of batches.
///
/// For each sign there are `bins` bins of equal width that cover [0, reach); `reach` is the smallest power of two above
/// every |x| seen (2^-60 at least). When a larger value comes, reach doubles as often as needed and pairs of bins merge
/// each time. Bin k of the positives holds k*w <= x < (k+1)*w, of the negatives k*w <= -x < (k+1)*w with zeros counted
/// to the positives, w = reach / bins. As powers of two scale without rounding, the result depends on the values alone:
/// not on their order, the batches, or the number of threads. At least bins/2 bins lie within the largest |x|.
class Histogram {
 public:
  static constexpr int bins = 4096;

  /// `count` floats. Values that are not finite are counted apart.
  void add(const float* values, int64_t count);
  void merge(const Histogram& other);

  int64_t count() const { return count_; }
  /// Exact zeros, which are also in the positives' bin 0.
  int64_t zeros() const { return zeros_; }
  int64_t not_finite() const { return not_finite_; }
  /// Least and largest finite value; 0 where there is none.
  float low() const { return count_ ? low_ : 0; }
  float high() const { return count_ ? high_ : 0; }
  float largest() const;
  double width() const;
  std::span<const int64_t> positives() const { return counts_[0]; }
  std::span<const int64_t> negatives() const { return counts_[1]; }
  /// Bins of |x|: positives and negatives together, up to the last one within the largest |x|.
  std::vector<int64_t> magnitudes() const;

  /// A line of text that restores it exactly.
  std::string str() const;
  /// Throws Error(io) saying what is wrong.
  static Histogram parse(std::string_view text);
  bool operator==(const Histogram&) const = default;

 private:
  void widen(int exponent);

  int exponent_ = -60;  // reach is 2^exponent
  int64_t count_ = 0, zeros_ = 0, not_finite_ = 0;
  float low_ = 0, high_ = 0;
  std::array<std::vector<int64_t>, 2> counts_{std::vector<int64_t>(bins), std::vector<int64_t>(bins)};
};

}  // namespace tenon::quant

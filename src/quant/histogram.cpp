// SPDX-License-Identifier: Apache-2.0
#include "quant/histogram.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace tenon::quant {

namespace {
constexpr int least_exponent = -60, largest_exponent = 128;  // 2^128 is above every float

/// The smallest e with value < 2^e.
int exponent_of(float value) {
  int exponent = least_exponent;
  if (value > 0) std::frexp(value, &exponent);
  return std::max(exponent, least_exponent);
}
}  // namespace

void Histogram::widen(int exponent) {
  for (; exponent_ < exponent; ++exponent_)
    for (std::vector<int64_t>& counts : counts_) {
      for (int at = 0; at < bins / 2; ++at) counts[at] = counts[2 * at] + counts[2 * at + 1];
      std::fill(counts.begin() + bins / 2, counts.end(), 0);
    }
}

namespace {
struct Span {
  float low = INFINITY, high = -INFINITY;
  int64_t bad = 0;  // that are not finite
};

/// In lanes of their own, which compilers make vectors of.
Span span_of(const float* values, int64_t count) {
  constexpr int lanes = 16;
  std::array<float, lanes> low, high;
  std::array<int32_t, lanes> bad{};
  low.fill(INFINITY), high.fill(-INFINITY);
  Span all;
  const auto take = [&](int lane, float x) {
    const bool finite = std::fabs(x) <= std::numeric_limits<float>::max();
    bad[lane] += !finite;
    low[lane] = finite && x < low[lane] ? x : low[lane];
    high[lane] = finite && x > high[lane] ? x : high[lane];
  };
  int64_t at = 0;
  for (; at + lanes <= count; at += lanes)
    for (int lane = 0; lane < lanes; ++lane) take(lane, values[at + lane]);
  for (; at < count; ++at) take(0, values[at]);
  for (int lane = 0; lane < lanes; ++lane) {
    all.bad += bad[lane];
    all.low = std::min(all.low, low[lane]), all.high = std::max(all.high, high[lane]);
  }
  return all;
}
}  // namespace

void Histogram::add(const float* values, int64_t count) {
  const auto [low, high, bad] = span_of(values, count);
  not_finite_ += bad;
  if (bad == count) return;
  low_ = count_ ? std::min(low_, low) : low;
  high_ = count_ ? std::max(high_, high) : high;
  count_ += count - bad;
  widen(exponent_of(largest()));
  // A power of two: the product is exact but for underflow, which lands in bin 0 like its value.
  const auto scale = static_cast<float>(1 / width());
  int64_t* const counts[] = {counts_[0].data(), counts_[1].data()};
  constexpr int64_t most = 512;
  std::array<int32_t, most> bin;  // those of negatives behind the others
  for (int64_t begin = 0; begin < count; begin += most) {
    const int64_t some = std::min(most, count - begin);
    int32_t zeros = 0;
    for (int64_t i = 0; i < some; ++i) {
      const float x = values[begin + i], size = std::fabs(x) * scale;
      bin[i] = static_cast<int32_t>(size < bins ? size : 0) + (x < 0 ? bins : 0);
      zeros += x == 0;
    }
    zeros_ += zeros;
    for (int64_t i = 0; i < some; ++i)
      if (bad == 0 || std::isfinite(values[begin + i])) ++counts[bin[i] >= bins][bin[i] & (bins - 1)];
  }
}

void Histogram::merge(const Histogram& other) {
  not_finite_ += other.not_finite_;
  if (!other.count_) return;
  low_ = count_ ? std::min(low_, other.low_) : other.low_;
  high_ = count_ ? std::max(high_, other.high_) : other.high_;
  count_ += other.count_;
  zeros_ += other.zeros_;
  widen(other.exponent_);
  const int shift = exponent_ - other.exponent_;
  for (int sign = 0; sign < 2; ++sign)
    for (int at = 0; at < bins; ++at) counts_[sign][shift > 30 ? 0 : at >> shift] += other.counts_[sign][at];
}

float Histogram::largest() const { return count_ ? std::max(std::fabs(low_), std::fabs(high_)) : 0; }
double Histogram::width() const { return std::ldexp(1.0, exponent_) / bins; }

std::vector<int64_t> Histogram::magnitudes() const {
  const auto last = static_cast<size_t>(static_cast<double>(largest()) / width());
  std::vector<int64_t> all(counts_[0].begin(), counts_[0].begin() + static_cast<int64_t>(last) + 1);
  for (size_t at = 0; at <= last; ++at) all[at] += counts_[1][at];
  return all;
}

std::string Histogram::str() const {
  std::string text = fmt::format("{} {} {} {} {:.9g} {:.9g}", exponent_, count_, zeros_, not_finite_, low_, high_);
  for (const std::vector<int64_t>& counts : counts_) {
    // Runs of empty bins are "-N".
    int64_t empty = 0;
    for (const int64_t count : counts) {
      if (count == 0) {
        ++empty;
        continue;
      }
      if (empty) text += fmt::format(" -{}", std::exchange(empty, 0));
      text += fmt::format(" {}", count);
    }
    if (empty) text += fmt::format(" -{}", empty);
  }
  return text;
}

namespace {
template <class T>
T next(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  T value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc()) throw Error(Code::io, "the histogram is damaged", {.why = "a number is missing"});
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}
}  // namespace

Histogram Histogram::parse(std::string_view text) {
  const auto fail = [](const char* why) { throw Error(Code::io, "the histogram is damaged", {.why = why}); };
  Histogram result;
  result.exponent_ = next<int>(text);
  result.count_ = next<int64_t>(text);
  result.zeros_ = next<int64_t>(text);
  result.not_finite_ = next<int64_t>(text);
  result.low_ = next<float>(text);
  result.high_ = next<float>(text);
  if (!std::isfinite(result.low_) || !std::isfinite(result.high_) || result.low_ > result.high_) fail("no such range");
  if (result.exponent_ < least_exponent || result.exponent_ > largest_exponent ||
      result.exponent_ != exponent_of(result.largest()) || result.count_ < 0 || result.zeros_ < 0 ||
      result.zeros_ > result.count_ || result.not_finite_ < 0)
    fail("its counts or its width contradict its values");
  int64_t left = result.count_;
  for (std::vector<int64_t>& counts : result.counts_)
    for (int64_t at = 0; at < bins;) {
      const int64_t value = next<int64_t>(text);
      if (value < 0) {
        if (value < -bins || at - value > bins) fail("it has too many bins");
        at -= value;
        continue;
      }
      if (value > left) fail("its bins hold more than its count");
      left -= value;
      counts[static_cast<size_t>(at++)] = value;
    }
  if (left != 0) fail("its bins hold less than its count");
  return result;
}

}  // namespace tenon::quant

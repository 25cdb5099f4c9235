// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <complex>
#include <numbers>

#include "ops/floats.h"
#include "ops/inference.h"

namespace tenon::ops::fourier {
namespace {

using Complex = std::complex<double>;

/// The discrete Fourier transform of a line by its definition; roots[k] = exp(-+2 pi i k / n).
void transform(const std::vector<Complex>& line, const std::vector<Complex>& roots, std::vector<Complex>& out) {
  const size_t n = line.size();
  for (size_t k = 0; k < out.size(); ++k) {
    Complex sum = 0;
    size_t at = 0;
    for (size_t i = 0; i < n; ++i) {
      sum += line[i] * roots[at];
      at += k;
      if (at >= n) at -= n;
    }
    out[k] = sum;
  }
}

std::vector<Complex> roots_of(int64_t n, bool inverse) {
  std::vector<Complex> roots;
  for (int64_t k = 0; k < n; ++k)
    roots.push_back(
        std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n)));
  return roots;
}

/// The scalar integer of an optional input.
std::optional<int64_t> scalar_at(Evaluation& ctx, size_t input) {
  if (!ctx.has(input)) return std::nullopt;
  const auto list = ctx.integers(input);
  if (list.size() != 1) ctx.fail("input " + std::to_string(input) + " is not a scalar");
  return list[0];
}

void infer_dft(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  const auto axis_list = ctx.has(2) ? ctx.integers(2) : std::optional(std::vector<int64_t>{-2});
  if (!x || !axis_list || axis_list->size() != 1) return ctx.set(0, ctx.dtype(0), std::nullopt);
  ir::Shape y = *x;
  if (y.size() < 2) ctx.fail("the input has rank " + std::to_string(y.size()) + "; at least 2 is needed");
  ir::Dim& size = y[normal_axis(ctx, (*axis_list)[0], y.size())];
  const bool onesided = ctx.node().integer("onesided", 0), real = onesided && ctx.node().integer("inverse", 0);
  if (ctx.has(1)) {
    const auto length = ctx.content(1);
    size = length && length->size() == 1 ? (*length)[0] : ctx.unknown();
  } else if (real) {
    size = (size - 1) * 2;
  }
  if (onesided && !real) size = size.floor_div(2) + 1;
  y.back() = real ? 1 : 2;
  ctx.set(0, ctx.dtype(0), std::move(y));
}

/// The second half of a transform that is real on the other side mirrors the first; what is its own mirror is real.
void mirror(std::vector<Complex>& line) {
  const size_t n = line.size();
  for (size_t k = 0; k <= n / 2; ++k) {
    const size_t other = (n - k) % n;
    if (other == k) line[k] = line[k].real();
    else line[other] = std::conj(line[k]);
  }
}

/// Complex to complex, or on one side alone: a real line's transform holds its first half, from which the inverse makes
/// the real line.
void evaluate_dft(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const bool inverse = ctx.node().integer("inverse", 0), onesided = ctx.node().integer("onesided", 0);
  const size_t rank = x.dims().rank(), axis = normal_axis(ctx, scalar_at(ctx, 2).value_or(-2), rank);
  if (rank < 2 || axis + 1 == rank || x.dims().back() < 1 || x.dims().back() > 2)
    ctx.fail("the input " + x.dims().str() + " does not end in 1 (real) or 2 (complex)");
  const bool real = inverse && onesided;
  const int64_t given = x.dims()[axis], parts = x.dims().back();
  const int64_t length = scalar_at(ctx, 1).value_or(real ? 2 * (given - 1) : given);
  if (length < 1 || length > (int64_t{1} << 24)) ctx.fail("the length is " + std::to_string(length));
  Dims dims = x.dims();
  dims[axis] = onesided && !real ? length / 2 + 1 : length;
  const int64_t results = dims[rank - 1] = real ? 1 : 2;
  const std::vector<double> from = reals(ctx, x);
  Dims lines = x.dims();
  lines.erase(rank - 1);
  const Around all = around(lines, axis);
  const std::vector<Complex> roots = roots_of(length, inverse);
  std::vector<Complex> line(static_cast<size_t>(length)), out(static_cast<size_t>(dims[axis]));
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    T* to = ctx.output(0, x.dtype(), dims).template data<T>();
    for (int64_t outer = 0; outer < all.outer; ++outer)
      for (int64_t inner = 0; inner < all.inner; ++inner) {
        for (int64_t i = 0; i < length; ++i) {
          const int64_t at = ((outer * given + i) * all.inner + inner) * parts;
          line[i] = i >= given ? Complex() : Complex(from[at], parts == 2 ? from[at + 1] : 0);
        }
        if (real) mirror(line);
        transform(line, roots, out);
        for (int64_t k = 0; k < dims[axis]; ++k) {
          const int64_t at = ((outer * dims[axis] + k) * all.inner + inner) * results;
          const Complex value = inverse ? out[k] / static_cast<double>(length) : out[k];
          to[at] = rounded<T>(value.real());
          if (!real) to[at + 1] = rounded<T>(value.imag());
        }
      }
  });
}

void infer_stft(Inference& ctx) {
  const ir::Shape *signal = ctx.shape(0), *window = ctx.has(2) ? ctx.shape(2) : nullptr;
  const auto step = ctx.content(1);
  if (!signal || signal->size() < 2) return ctx.set(0, ctx.dtype(0), std::nullopt);
  ir::Dim frames = ctx.unknown(), bins = ctx.unknown();
  std::optional<ir::Dim> length;
  if (const auto content = ctx.content(3); content && content->size() == 1) length = (*content)[0];
  else if (window && window->size() == 1) length = (*window)[0];
  if (length && step && step->size() == 1 && (*step)[0].is_constant() && (*step)[0].value() > 0)
    frames = ((*signal)[1] - *length).floor_div((*step)[0].value()) + 1;
  if (length) bins = ctx.node().integer("onesided", 1) ? length->floor_div(2) + 1 : *length;
  ctx.set(0, ctx.dtype(0), ir::Shape{(*signal)[0], frames, bins, 2});
}

/// Transforms of windowed frames of a signal (batch, length, 1 or 2), one every `frame_step`.
void evaluate_stft(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  if (x.dims().rank() < 2 || x.dims().rank() > 3 || (x.dims().rank() == 3 && (x.dims()[2] < 1 || x.dims()[2] > 2)))
    ctx.fail("the signal is " + x.dims().str());
  const int64_t batch = x.dims()[0], size = x.dims()[1], parts = x.dims().rank() == 3 ? x.dims()[2] : 1;
  const int64_t step = scalar_at(ctx, 1).value_or(0);
  std::vector<double> window;
  if (ctx.has(2)) window = reals(ctx, ctx.input(2));
  const int64_t length = scalar_at(ctx, 3).value_or(ctx.has(2) ? static_cast<int64_t>(window.size()) : 0);
  if (window.empty()) window.assign(static_cast<size_t>(std::max<int64_t>(0, std::min(length, size))), 1);
  if (step < 1 || length < 1 || length > size || static_cast<int64_t>(window.size()) != length)
    ctx.fail("frames of " + std::to_string(length) + " every " + std::to_string(step) + " do not fit a signal of " +
             std::to_string(size));
  const bool onesided = ctx.node().integer("onesided", 1);
  const int64_t frames = (size - length) / step + 1, bins = onesided ? length / 2 + 1 : length;
  const std::vector<double> from = reals(ctx, x);
  const std::vector<Complex> roots = roots_of(length, false);
  std::vector<Complex> line(static_cast<size_t>(length)), out(static_cast<size_t>(bins));
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    T* to = ctx.output(0, x.dtype(), {batch, frames, bins, 2}).template data<T>();
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t frame = 0; frame < frames; ++frame) {
        for (int64_t i = 0; i < length; ++i) {
          const int64_t at = (n * size + frame * step + i) * parts;
          line[i] = Complex(from[at], parts == 2 ? from[at + 1] : 0) * window[i];
        }
        transform(line, roots, out);
        for (const Complex& value : out) *to++ = rounded<T>(value.real()), *to++ = rounded<T>(value.imag());
      }
  });
}

TENON_OP("DFT", 1, 3, 1, 1, infer_dft, evaluate_dft,
         {attr::integer("axis").up_to(19), attr::flag("inverse"), attr::flag("onesided")});
TENON_OP("STFT", 2, 4, 1, 1, infer_stft, evaluate_stft, {attr::flag("onesided")});

}  // namespace
}  // namespace tenon::ops::fourier

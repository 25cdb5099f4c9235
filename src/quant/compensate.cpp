// SPDX-License-Identifier: Apache-2.0
#include "quant/compensate.h"

#include <algorithm>
#include <cmath>

namespace tenon::quant {
namespace {

constexpr int64_t most_columns = 2048;  // of a piece: its products take 16 MB
constexpr int64_t most_rows = 4096;
constexpr double damping = 0.01;  // of the mean power of an input
constexpr int64_t together = 8;   // rows of data that are added at once
constexpr int64_t panel = 64;     // columns that are factorised at once

template <class F>
void on_all_of(ThreadPool& thread_pool, const F& function) {
  thread_pool.run([](void* context, const Worker& worker) { (*static_cast<const F*>(context))(worker); },
                  const_cast<F*>(&function));
}

/// Adds up to `together` rows, those that are not there being zeros.
void add_rows(ColumnPiece& piece, const float* rows, int64_t pitch, int64_t count, const Worker& worker) {
  const int64_t n = piece.count;
  static constexpr float nothing[most_columns] = {};
  const float* x[together];
  for (int64_t k = 0; k < together; ++k) x[k] = k < count ? rows + k * pitch + piece.begin : nothing;
  for (int64_t i = worker.id; i < n; i += worker.count) {
    float* const row = piece.products.data() + i * n;
    float own[together];
    for (int64_t k = 0; k < together; ++k) own[k] = x[k][i];
    for (int64_t j = 0; j <= i; ++j) {
      float sum = row[j];
      for (int64_t k = 0; k < together; ++k) sum += own[k] * x[k][j];
      row[j] = sum;
    }
  }
}

/// A square matrix of which the upper half counts.
struct Upper {
  int64_t n;
  std::vector<double> values;
  double* row(int64_t i) { return values.data() + i * n; }
  const double* row(int64_t i) const { return values.data() + i * n; }
};

Upper damped(const ColumnPiece& piece) {
  Upper h{piece.count, std::vector<double>(static_cast<size_t>(piece.count * piece.count))};
  double power = 0;
  for (int64_t i = 0; i < h.n; ++i) {
    for (int64_t j = 0; j <= i; ++j) h.row(j)[i] = static_cast<double>(piece.products[i * h.n + j]);
    power += h.row(i)[i];
  }
  const double extra = power > 0 ? damping * power / static_cast<double>(h.n) : 1;
  for (int64_t i = 0; i < h.n; ++i) h.row(i)[i] += extra;
  return h;
}

/// Of the rows [0, end) of the panel [begin, end) that is left of R: its own columns, from the last on.
void finish_panel(Upper& h, int64_t begin, int64_t end) {
  for (int64_t j = end; j-- > begin;) {
    double* const own = h.row(j);
    for (int64_t m = j + 1; m < end; ++m) own[j] -= own[m] * own[m];
    // Damping keeps this above zero, rounding aside.
    own[j] = std::sqrt(std::max(own[j], 1e-30));
    for (int64_t i = 0; i < j; ++i) {
      double* const row = h.row(i);
      double sum = row[j];
      for (int64_t m = j + 1; m < end; ++m) sum -= row[m] * own[m];
      row[j] = sum / own[j];
    }
  }
}

/// Replaces a positive matrix by the upper triangular R with R R' = it, by panels of columns from the last on.
void cholesky(Upper& h, ThreadPool& thread_pool) {
  for (int64_t end = h.n; end > 0;) {
    const int64_t begin = std::max<int64_t>(0, end - panel);
    finish_panel(h, begin, end);
    on_all_of(thread_pool, [&](const Worker& worker) {
      for (int64_t i = worker.id; i < begin; i += worker.count) {
        double* const row = h.row(i);
        for (int64_t j = i; j < begin; ++j) {
          const double* const other = h.row(j);
          double sum = 0;
          for (int64_t m = begin; m < end; ++m) sum += row[m] * other[m];
          row[j] -= sum;
        }
      }
    });
    end = begin;
  }
}

/// The inverse of R, upper triangular. Workers take columns of their own.
Upper inverse(const Upper& r, ThreadPool& thread_pool) {
  Upper u{r.n, std::vector<double>(r.values.size())};
  on_all_of(thread_pool, [&](const Worker& worker) {
    int64_t begin, end;
    worker.share(r.n, begin, end);
    for (int64_t i = end; i-- > 0;) {
      double* const to = u.row(i);
      const double* const from = r.row(i);
      for (int64_t m = i + 1; m < end; ++m) {
        const double* const other = u.row(m);
        for (int64_t j = std::max(begin, m); j < end; ++j) to[j] -= from[m] * other[j];
      }
      const double own = 1 / from[i];
      for (int64_t j = std::max(begin, i + 1); j < end; ++j) to[j] *= own;
      if (i >= begin) to[i] = own;
    }
  });
  return u;
}

int64_t piece_size(int64_t columns, int64_t block) {
  const int64_t pieces = (columns + most_columns - 1) / most_columns, even = (columns + pieces - 1) / pieces;
  return std::min((even + block - 1) / block * block, most_columns);
}

}  // namespace

InputProducts::InputProducts(int64_t columns, int64_t block) : columns_(columns) {
  const int64_t size = piece_size(columns, block);
  for (int64_t begin = 0; begin < columns; begin += size) {
    const int64_t count = std::min(size, columns - begin);
    pieces_.push_back({begin, count, std::vector<float>(static_cast<size_t>(count * count))});
  }
}

int64_t InputProducts::bytes(int64_t columns, int64_t block) {
  return piece_size(columns, block) * columns * static_cast<int64_t>(sizeof(float));
}

int64_t InputProducts::wanted() const { return most_rows; }

void InputProducts::add(const float* rows, int64_t count, ThreadPool& thread_pool) {
  on_all_of(thread_pool, [&](const Worker& worker) {
    for (int64_t at = 0; at < count; at += together)
      for (ColumnPiece& piece : pieces_)
        add_rows(piece, rows + at * columns_, columns_, std::min(together, count - at), worker);
  });
  rows_ += count;
}

void InputProducts::factorise(ThreadPool& thread_pool) {
  for (ColumnPiece& piece : pieces_) {
    Upper h = damped(piece);
    cholesky(h, thread_pool);
    const Upper u = inverse(h, thread_pool);
    for (int64_t i = 0; i < piece.count; ++i)
      for (int64_t j = 0; j < piece.count; ++j)
        piece.products[i * piece.count + j] = j < i ? 0 : static_cast<float>(u.row(i)[j]);
  }
}

}  // namespace tenon::quant

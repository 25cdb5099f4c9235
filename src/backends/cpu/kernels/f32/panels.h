// SPDX-License-Identifier: Apache-2.0
// Right operands of products that several left ones meet: packed once, multiplied a panel of columns at a time.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backends/cpu/isa.h"

namespace tenon::cpu {

/// Columns of one panel.
int64_t panel_columns(Isa isa);
/// Columns [first, first + panel_columns) of the k x n matrix b times `factor`, zeros behind the last: k rows of
/// panel_columns floats. `transposed`: b[n][k]; ldb is the pitch of its rows in floats.
void pack_panel(Isa isa, const float* b, int64_t ldb, bool transposed, int64_t n, int64_t k, int64_t first,
                float factor, float* panel);
/// c[m][columns] = a[m][k] times the first `columns` columns of a panel; row pitches in floats.
void multiply_panel(Isa isa, const float* a, int64_t lda, int64_t m, const float* panel, int64_t k, float* c,
                    int64_t ldc, int64_t columns);

}  // namespace tenon::cpu

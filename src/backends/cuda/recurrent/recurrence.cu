// SPDX-License-Identifier: Apache-2.0
// Steps of an LSTM, a GRU or an RNN behind the product of their inputs, in one launch. A cluster of CLUSTER blocks has
// BATCH sequences of a direction; each block has UNITS of the HIDDEN units with all their gates. It multiplies its rows
// of R by the state, which every block of the cluster holds, and sends its part of the new one to all others. Weights
// stay where they are for all steps: of the DEPTH numbers of ROWS_EACH rows that a thread multiplies the first HELD in
// registers, the others in shared memory (SHARED 1) or in the memory of the GPU. ELEMENT: type; STATE: that of
// the first states; GATES: 4 of an LSTM, 3
// of a GRU, 1 of an RNN; SLOTS threads share the rows, SLICES of them their depth.
typedef ELEMENT T;
#include "recurrence_params.h"
typedef tenon::cuda::RecurrenceParams Params;

constexpr int VEC = 16 / sizeof(T), THREADS = SLOTS * SLICES, ROWS = GATES * UNITS, WIDE = SLICES * DEPTH;
constexpr int ITEMS = (BATCH * UNITS + THREADS - 1) / THREADS;  // units of sequences that a thread finishes
constexpr int LEFT = (DEPTH - HELD) / VEC, PITCH = (HIDDEN + VEC - 1) / VEC * VEC;
struct __align__(16) Vec {
  T e[VEC];
};
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.f, 1.f + __expf(-x)); }

// The blocks of a cluster, which meet at each step; one block meets itself.
__device__ __forceinline__ void arrive() {
#if CLUSTER > 1
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
__device__ __forceinline__ void meet() {
#if CLUSTER > 1
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
  __syncthreads();
#endif
}
__device__ __forceinline__ void send(float* to, int rank, float value) {
#if CLUSTER > 1
  u32 there;
  const u32 here = (u32)__cvta_generic_to_shared(to);
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
#else
  *to = value;
#endif
}

// Numbers of R from place k on in the row of a slot; zeros beyond.
__device__ __forceinline__ Vec weights_at(const T* r, int rank, int row, int k) {
  const int unit = rank * UNITS + row % UNITS;
  if (row < ROWS && unit < HIDDEN && k < HIDDEN)
    return *(const Vec*)(r + (i64)(row / UNITS * HIDDEN + unit) * PITCH + k);
  Vec zeros;
#pragma unroll
  for (int e = 0; e < VEC; ++e) zeros.e[e] = of_f32<T>(0.f);
  return zeros;
}
// Adds a vector of weights times the states from place k on.
__device__ __forceinline__ void multiply(float (&sum)[BATCH], const Vec& w, const float (&state)[BATCH][WIDE], int k) {
#pragma unroll
  for (int n = 0; n < BATCH; ++n)
#pragma unroll
    for (int e = 0; e < VEC; e += 4) {
      const float4 h = *(const float4*)(state[n] + k + e);
      sum[n] = fmaf(f32_of(w.e[e]), h.x, sum[n]);
      sum[n] = fmaf(f32_of(w.e[e + 1]), h.y, sum[n]);
      sum[n] = fmaf(f32_of(w.e[e + 2]), h.z, sum[n]);
      sum[n] = fmaf(f32_of(w.e[e + 3]), h.w, sum[n]);
    }
}

extern "C" __global__ void
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
__launch_bounds__(THREADS) recurrence(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  __shared__ __align__(16) float states[2][BATCH][WIDE];
  __shared__ float parts[SLICES][BATCH][SLOTS * ROWS_EACH];
  extern __shared__ __align__(16) Vec far[];
  wait_for_previous(breadcrumb);
  const int rank = blockIdx.x % CLUSTER, groups = (p.batch + BATCH - 1) / BATCH;
  const int direction = blockIdx.x / CLUSTER / groups, begin = blockIdx.x / CLUSTER % groups * BATCH;
  const int slot = threadIdx.x % SLOTS, slice = threadIdx.x / SLOTS, first = slice * DEPTH;
  const T* const r = p.weights + (i64)direction * GATES * HIDDEN * PITCH;

  Vec held[ROWS_EACH][HELD / VEC + 1];
#pragma unroll
  for (int row = 0; row < ROWS_EACH; ++row)
#pragma unroll
    for (int v = 0; v < HELD / VEC; ++v)
      held[row][v] = weights_at(r, rank, row * SLOTS + slot, first + v * VEC);
  if (SHARED)
    for (int row = 0; row < ROWS_EACH; ++row)
      for (int v = 0; v < LEFT; ++v)
        far[(row * LEFT + v) * THREADS + threadIdx.x] =
            weights_at(r, rank, row * SLOTS + slot, first + HELD + v * VEC);
  for (int at = threadIdx.x; at < 2 * BATCH * WIDE; at += THREADS) {
    const int n = begin + at / WIDE % BATCH, k = at % WIDE;
    const bool given = at < BATCH * WIDE && p.first && n < p.batch && k < HIDDEN;
    (&states[0][0][0])[at] = given ? f32_of(p.first[((i64)direction * p.batch + n) * HIDDEN + k]) : 0.f;
  }

  // The units that this thread finishes, and the cells of an LSTM.
  float cell[ITEMS], bias[ITEMS], given[ITEMS][GATES];
  bool mine[ITEMS];
  int units[ITEMS], sequences[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int item = threadIdx.x + i * THREADS;
    units[i] = rank * UNITS + item % UNITS, sequences[i] = begin + item / UNITS;
    mine[i] = item < BATCH * UNITS && units[i] < HIDDEN && sequences[i] < p.batch;
    const bool has_cell = mine[i] && p.first_cell, has_bias = mine[i] && p.bias;
    cell[i] = has_cell ? f32_of(p.first_cell[((i64)direction * p.batch + sequences[i]) * HIDDEN + units[i]]) : 0.f;
    bias[i] = has_bias ? p.bias[direction * HIDDEN + units[i]] : 0.f;
  }
  const bool backwards = p.reverse || direction == 1;
  const auto fetch = [&](int step) {
    const i64 t = backwards ? p.sequence - 1 - step : step;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
#pragma unroll
      for (int gate = 0; gate < GATES; ++gate)
        if (mine[i] && step < p.sequence)
          given[i][gate] = f32_of(p.gates[((t * p.batch + sequences[i]) * p.directions + direction) * GATES * HIDDEN +
                                          gate * HIDDEN + units[i]]);
  };
  fetch(0);
  arrive();  // no block writes into another before that one has set its states
  meet();

  for (int step = 0; step < p.sequence; ++step) {
    const int now = step & 1;
#pragma unroll
    for (int row = 0; row < ROWS_EACH; ++row) {
      float sum[BATCH];
#pragma unroll
      for (int n = 0; n < BATCH; ++n) sum[n] = 0.f;
#pragma unroll
      for (int v = 0; v < HELD / VEC; ++v) multiply(sum, held[row][v], states[now], first + v * VEC);
#pragma unroll 4
      for (int v = 0; v < LEFT; ++v)
        multiply(sum,
                 SHARED ? far[(row * LEFT + v) * THREADS + threadIdx.x]
                        : weights_at(r, rank, row * SLOTS + slot, first + HELD + v * VEC),
                 states[now], first + HELD + v * VEC);
#pragma unroll
      for (int n = 0; n < BATCH; ++n) parts[slice][n][row * SLOTS + slot] = sum[n];
    }
    __syncthreads();
    const i64 t = backwards ? p.sequence - 1 - step : step;
    float news[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      if (!mine[i]) continue;
      const int unit = units[i] - rank * UNITS, n = sequences[i] - begin;
      float back[GATES];
#pragma unroll
      for (int gate = 0; gate < GATES; ++gate) {
        back[gate] = 0.f;
#pragma unroll
        for (int k = 0; k < SLICES; ++k) back[gate] += parts[k][n][gate * UNITS + unit];
      }
      if constexpr (GATES == 4) {
        cell[i] = sigmoid(given[i][2] + back[2]) * cell[i] +
                  sigmoid(given[i][0] + back[0]) * tanhf(given[i][3] + back[3]);
        news[i] = sigmoid(given[i][1] + back[1]) * tanhf(cell[i]);
      } else if constexpr (GATES == 3) {
        const float update = sigmoid(given[i][0] + back[0]), reset = sigmoid(given[i][1] + back[1]);
        const float fresh = tanhf(given[i][2] + reset * (back[2] + bias[i]));
        news[i] = fresh + update * (states[now][n][units[i]] - fresh);
      } else {
        news[i] = tanhf(given[i][0] + back[0]);
      }
#pragma unroll
      for (int other = 0; other < CLUSTER; ++other) send(&states[1 - now][n][units[i]], other, news[i]);
    }
    arrive();
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      if (!mine[i]) continue;
      const i64 state = (i64)sequences[i] * HIDDEN + units[i], all = (i64)p.batch * HIDDEN;
      if (p.y) p.y[(t * p.directions + direction) * all + state] = of_f32<T>(news[i]);
      if (step + 1 < p.sequence) continue;
      if (p.last) p.last[direction * all + state] = of_f32<T>(news[i]);
      if (p.last_cell) p.last_cell[direction * all + state] = of_f32<T>(cell[i]);
    }
    fetch(step + 1);
    meet();
  }
}

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/runtime/driver.h"

/// The part of cuBLASLt's interface that Tenon uses, by our own declarations; opened at run time.
namespace tenon::cuda {

/// Descriptors that the library makes, by what they are of.
using BlasHandle = struct BlasHandleTag*;
using BlasProduct = struct BlasProductTag*;
using BlasMatrix = struct BlasMatrixTag*;
using BlasWish = struct BlasWishTag*;

/// An algorithm for one product, as the library's heuristics give it.
struct BlasChoice {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;  // 0: it can be used
  float waves;
  int reserved[4];
};

namespace blas_constants {
constexpr int f32 = 0, f16 = 2, bf16 = 14;                 // cudaDataType
constexpr int compute_f32 = 68, compute_tf32 = 77;         // cublasComputeType_t
constexpr int trans_a = 3, epilogue = 7, bias_pointer = 8;  // of a product
constexpr int epilogue_none = 1, epilogue_relu = 2, epilogue_bias = 4, epilogue_gelu = 32;
constexpr int wish_workspace = 1, wish_alignment_a = 5;  // then of b, c and d
constexpr int transposed = 1;
}  // namespace blas_constants

/// Result of every function: 0 is success.
struct Blas {
  int (*Create)(BlasHandle*);
  size_t (*GetVersion)();
  int (*MatmulDescCreate)(BlasProduct*, int compute, int scale);
  int (*MatmulDescDestroy)(BlasProduct);
  int (*MatmulDescSetAttribute)(BlasProduct, int, const void*, size_t);
  int (*MatrixLayoutCreate)(BlasMatrix*, int type, uint64_t rows, uint64_t columns, int64_t pitch);
  int (*MatrixLayoutDestroy)(BlasMatrix);
  int (*MatmulPreferenceCreate)(BlasWish*);
  int (*MatmulPreferenceDestroy)(BlasWish);
  int (*MatmulPreferenceSetAttribute)(BlasWish, int, const void*, size_t);
  int (*MatmulAlgoGetHeuristic)(BlasHandle, BlasProduct, BlasMatrix, BlasMatrix, BlasMatrix, BlasMatrix, BlasWish, int,
                                BlasChoice*, int*);
  int (*Matmul)(BlasHandle, BlasProduct, const void* alpha, Address a, BlasMatrix, Address b, BlasMatrix,
                const void* beta, Address c, BlasMatrix, Address d, BlasMatrix, const uint64_t* algorithm,
                Address workspace, size_t, Stream);

  Library library;
  std::string why;  // why it cannot be used; empty when it can
};

/// Opened at the first call. With `why` set, none of its functions may be called.
const Blas& blas();
/// The library's state for the current device, made once for each. Throws Error(unsupported).
BlasHandle blas_handle(int device);
/// Throws Error(unsupported) naming the call for a result other than 0.
void check_blas(int result, const char* call);

}  // namespace tenon::cuda

// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/vendor/blas.h"

#include <tenon/error.h>

#include <map>
#include <mutex>

namespace tenon::cuda {

const Blas& blas() {
  static const Blas opened = [] {
    Blas b{};
    b.library = open_library({"libcublasLt.so.13", "libcublasLt.so.12"});
    if (!b.library) {
      b.why = b.library.why;
      return b;
    }
    const auto bind = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(b.library.find(symbol));
      if (!function && b.why.empty()) b.why = "it has no " + std::string(symbol);
    };
    bind(b.Create, "cublasLtCreate");
    bind(b.GetVersion, "cublasLtGetVersion");
    bind(b.MatmulDescCreate, "cublasLtMatmulDescCreate");
    bind(b.MatmulDescDestroy, "cublasLtMatmulDescDestroy");
    bind(b.MatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute");
    bind(b.MatrixLayoutCreate, "cublasLtMatrixLayoutCreate");
    bind(b.MatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy");
    bind(b.MatmulPreferenceCreate, "cublasLtMatmulPreferenceCreate");
    bind(b.MatmulPreferenceDestroy, "cublasLtMatmulPreferenceDestroy");
    bind(b.MatmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute");
    bind(b.MatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic");
    bind(b.Matmul, "cublasLtMatmul");
    return b;
  }();
  return opened;
}

BlasHandle blas_handle(int device) {
  static std::mutex mutex;
  static std::map<int, BlasHandle> handles;
  const std::lock_guard lock(mutex);
  BlasHandle& handle = handles[device];
  // Never destroyed: the driver may be gone before our statics are.
  if (!handle) check_blas(blas().Create(&handle), "cublasLtCreate");
  return handle;
}

void check_blas(int result, const char* call) {
  if (result == 0) return;
  throw Error(Code::unsupported, "cuBLASLt reports an error",
              {.where = call, .why = "status " + std::to_string(result)});
}

}  // namespace tenon::cuda

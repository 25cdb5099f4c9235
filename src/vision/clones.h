// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compiles a function for AVX2 as well and picks at load time; sanitizers cannot run before that choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define TENON_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define TENON_CLONES
#endif

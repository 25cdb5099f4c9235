// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/export.h>

/* The version of these headers; the build takes it from here. For C and C++. */
#define TENON_VERSION_MAJOR 0
#define TENON_VERSION_MINOR 1
#define TENON_VERSION_PATCH 0

/* One number that #if can compare: 0.1.0 is 100, 1.2.3 is 10203. */
#define TENON_VERSION (TENON_VERSION_MAJOR * 10000 + TENON_VERSION_MINOR * 100 + TENON_VERSION_PATCH)

#ifdef __cplusplus
namespace tenon {

/// The version of the library that runs, as "0.1.0". Its headers' is TENON_VERSION.
TENON_API const char* version();
/// The same as a number like TENON_VERSION.
TENON_API int version_number();

}  // namespace tenon
#endif

// SPDX-License-Identifier: Apache-2.0
#ifndef TENON_TENON_VALUES_H
#define TENON_TENON_VALUES_H
/* What tenon.h is about: versions, errors, messages, tensors. It brings this. */
#include <stddef.h>
#include <stdint.h>
#include <tenon/export.h>
#include <tenon/version.h>

/* The type of an enumeration's values in C++: there any int of a caller's may be read, and refused by its number. */
#ifdef __cplusplus
#define TENON_ENUM_INT : int
#else
#define TENON_ENUM_INT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- versions and errors ---- */

/* TENON_VERSION of the library that runs, and the same as "0.1.0". */
TENON_API int tenon_version(void);
TENON_API const char* tenon_version_text(void);

/* Why something could not be done: the command's exit status. */
typedef enum tenon_code TENON_ENUM_INT {
  TENON_OK = 0,
  TENON_INTERNAL = 1, /* a fault of Tenon */
  TENON_USAGE = 2,
  TENON_INVALID_MODEL = 3,
  TENON_UNSUPPORTED = 4,
  TENON_BAD_ENGINE = 5,
  TENON_GATE_FAILED = 6,
  TENON_RESOURCE = 7,
  TENON_IO = 8
} tenon_code;

typedef struct tenon_error tenon_error;
TENON_API tenon_code tenon_error_code(const tenon_error* error);
/* What is wrong; the others are "" where they are not known. */
TENON_API const char* tenon_error_message(const tenon_error* error);
/* File, node, tensor or byte. */
TENON_API const char* tenon_error_where(const tenon_error* error);
/* The name of the ONNX node at fault. */
TENON_API const char* tenon_error_node(const tenon_error* error);
TENON_API const char* tenon_error_why(const tenon_error* error);
/* What to do. */
TENON_API const char* tenon_error_hint(const tenon_error* error);
/* All of it, in lines for a terminal. */
TENON_API const char* tenon_error_text(const tenon_error* error);
TENON_API void tenon_error_free(tenon_error* error);

/* ---- logging ---- */

typedef enum tenon_severity TENON_ENUM_INT {
  TENON_SEVERITY_INTERNAL_ERROR = 0,
  TENON_SEVERITY_ERROR = 1,
  TENON_SEVERITY_WARNING = 2,
  TENON_SEVERITY_INFO = 3,
  TENON_SEVERITY_VERBOSE = 4
} tenon_severity;

/* Called by any thread, by one at a time; `context` is the logger's. */
typedef void (*tenon_log_function)(void* context, tenon_severity severity, const char* message);

typedef struct tenon_logger {
  size_t size;
  tenon_log_function log; /* null: silent. It is called as long as an engine lives that was given it. */
  void* context;
  tenon_severity least; /* messages that matter less are left out */
} tenon_logger;
TENON_API void tenon_logger_init(tenon_logger* logger);

/* ---- tensors ---- */

/* Types of elements: the values of ONNX's TensorProto.DataType. */
typedef enum tenon_dtype TENON_ENUM_INT {
  TENON_UNDEFINED = 0,
  TENON_F32 = 1,
  TENON_U8 = 2,
  TENON_I8 = 3,
  TENON_U16 = 4,
  TENON_I16 = 5,
  TENON_I32 = 6,
  TENON_I64 = 7,
  TENON_STRING = 8,
  TENON_BOOL = 9,
  TENON_F16 = 10,
  TENON_F64 = 11,
  TENON_U32 = 12,
  TENON_U64 = 13,
  TENON_BF16 = 16,
  TENON_F8E4M3FN = 17,
  TENON_F8E4M3FNUZ = 18,
  TENON_F8E5M2 = 19,
  TENON_F8E5M2FNUZ = 20,
  TENON_U4 = 21,
  TENON_I4 = 22,
  TENON_SEQUENCE = 255
} tenon_dtype;

#define TENON_MAX_RANK 8

/* One element of a tensor of strings: bytes, which may hold zeros, and as Tenon gives them end with one. */
typedef struct tenon_string {
  const char* data;
  size_t size;
} tenon_string;

/* Elements in memory of the caller, which lives as long as it is bound or while a run goes on. Strings are an array of
 * tenon_string, dense and in the memory of the process, and are copied where they are taken. */
typedef struct tenon_tensor {
  size_t size;
  void* data; /* the first element; an address on the device */
  tenon_dtype dtype;
  int32_t rank;
  int64_t dims[TENON_MAX_RANK];    /* outermost first */
  int64_t strides[TENON_MAX_RANK]; /* in elements; for has_strides, else dense and row-major */
  int32_t has_strides;
  char device[24]; /* "" or "cpu": the memory of the process; "cuda", "cuda:1" */
} tenon_tensor;
TENON_API void tenon_tensor_init(tenon_tensor* tensor);
/* Bytes of one element, of strings those of a tenon_string; 0 for types without elements of whole bytes. */
TENON_API size_t tenon_dtype_size(tenon_dtype dtype);

/* Tensors in the form of DLPack 1.1, whose structures its own header has (github.com/dmlc/dlpack). TENON_UNSUPPORTED
 * where the other side has no such type, rank or device. */
struct DLTensor;
struct DLManagedTensor;
struct DLManagedTensorVersioned;
/* The same memory, without a copy; it lives as long as the caller does not call its deleter. */
TENON_API tenon_code tenon_tensor_from_dlpack(const struct DLTensor* dlpack, tenon_tensor* tensor, tenon_error** error);
/* For others, who call its deleter once: the same memory, which must live until then, or with `copy` one of its own.
 * Memory of a session is overwritten by its next run. What lies on a GPU is not copied. */
TENON_API tenon_code tenon_tensor_to_dlpack(const tenon_tensor* tensor, int32_t copy, struct DLManagedTensor** dlpack,
                                            tenon_error** error);
TENON_API tenon_code tenon_tensor_to_dlpack_versioned(const tenon_tensor* tensor, int32_t copy,
                                                      struct DLManagedTensorVersioned** dlpack, tenon_error** error);

#ifdef __cplusplus
}
#endif
#endif

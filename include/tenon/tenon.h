// SPDX-License-Identifier: Apache-2.0
#ifndef TENON_TENON_H
#define TENON_TENON_H
/* Tenon for C, and for languages that call C: an ONNX model in, an engine tuned for this machine out.
 *
 * Functions that can fail return a tenon_code and take a `tenon_error** error`, which may be null: on failure it gets
 * an object that tenon_error_free frees, on success null. No exception leaves them. Objects are freed by the function
 * of their name, which takes null. Text is UTF-8 as models have it, ends with a zero, and lives as long as the object
 * that it was asked of. Structures that begin with their size are set up by their `_init`: a later version may add
 * members to their ends, which programs compiled before do not have, and treats these as `_init` leaves them. Other
 * structures stay as they are. Engines may be used by any thread; a session by one at a time. */
#include <stddef.h>
#include <stdint.h>
#include <tenon/export.h>
#include <tenon/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- versions and errors ---- */

/* TENON_VERSION of the library that runs, and the same as "0.1.0". */
TENON_API int tenon_version(void);
TENON_API const char* tenon_version_text(void);

/* Why something could not be done: the command's exit status. */
typedef enum tenon_code {
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

typedef enum tenon_severity {
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
typedef enum tenon_dtype {
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

/* Elements in memory of the caller, which lives as long as it is bound or while a run goes on. */
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
/* Bytes of one element; 0 for types without elements of whole bytes. */
TENON_API size_t tenon_dtype_size(tenon_dtype dtype);

/* An input or output of an engine; a size that may change from run to run is -1. */
typedef struct tenon_tensor_info {
  size_t size;
  const char* name; /* lives as long as the engine */
  tenon_dtype dtype;
  int32_t rank;
  int64_t dims[TENON_MAX_RANK];
} tenon_tensor_info;
TENON_API void tenon_tensor_info_init(tenon_tensor_info* info);

/* ---- engines ---- */

typedef struct tenon_engine tenon_engine;

/* Sizes of an input that are not fixed by the model. */
typedef struct tenon_shape {
  const char* input;
  int32_t rank;
  int64_t dims[TENON_MAX_RANK];
} tenon_shape;

/* A range of sizes that an engine is tuned for. Inputs without a best size have that of the build's `shapes`; those
 * without a least or most have the best alone. */
typedef struct tenon_profile {
  const char* name; /* null where there is one profile */
  const tenon_shape* min;
  size_t min_count;
  const tenon_shape* opt;
  size_t opt_count;
  const tenon_shape* max;
  size_t max_count;
} tenon_profile;

/* What one engine may take, beside the limits of the process; 0: no limit of its own. */
typedef struct tenon_limits {
  size_t size;
  int64_t memory_bytes;
  int64_t loop_rounds;
  int64_t workspace_bytes;
} tenon_limits;
TENON_API void tenon_limits_init(tenon_limits* limits);
/* Those of the whole process; fields of 0 are as they are from the start: 80 % of free memory, 1,000,000 rounds. */
TENON_API tenon_code tenon_set_limits(const tenon_limits* limits, tenon_error** error);

/* A tensor by the name of the input or output that it is for. */
typedef struct tenon_named_tensor {
  const char* name; /* null: the only input */
  const tenon_tensor* tensor;
} tenon_named_tensor;

/* A value that lives from run to run: the output that gives it, and the input that takes it in the next run. */
typedef struct tenon_carried {
  const char* output;
  const char* input;
} tenon_carried;

/* Sample data for builds in "int8" and "fp8". */
typedef struct tenon_calibrator {
  size_t size;
  /* The next batch: leaves in `inputs` as many tensors as it returns, in the memory of the process, samples side by
   * side along the first axis; they are read before the next call. 0 at the end, below 0: the build is cancelled. */
  int32_t (*next_batch)(void* context, const tenon_named_tensor** inputs);
  void* context;
  int64_t samples;      /* how many there will be; 0: not known */
  const char* method;   /* null: "auto"; "minmax", "percentile", "mse", "entropy", "entropy-legacy" */
  double percentile;    /* for "percentile": 99.99 by `_init` */
  double max_error;     /* relative squared error at the outputs above which layers stay in floats: 0.001 by `_init` */
  const char* cache;    /* a file that the calibration is read from where it fits, else written to; null: none */
} tenon_calibrator;
TENON_API void tenon_calibrator_init(tenon_calibrator* calibrator);

typedef struct tenon_build_options {
  size_t size;
  const char* device;    /* null: "cpu" */
  const char* precision; /* null: "fp32"; "tf32", "fp16", "bf16", "best", with a calibrator "int8", "fp8" */
  const tenon_shape* shapes; /* of inputs that are dynamic in the model; -1 is not given */
  size_t shape_count;
  int32_t threads;            /* 0: the cores this process may use */
  double budget_seconds;      /* time for tuning; below 0, as `_init` has it: until every tactic is measured; 0: none */
  const char* timing_cache;   /* a file; null: in the user's cache folder; "-": none */
  const char* external_root;  /* a folder that external data may lie in; null: none but the model's own */
  int32_t strict;             /* no Winograd; on a GPU f32 on plain units, bytes with the CPU's bits */
  const tenon_logger* logger; /* null: silent */
  const tenon_limits* limits; /* null: those of the process alone */
  /* One line of progress: what is done, how far (0 to 1), and the seconds still expected (negative: unknown). It
   * returns 0 to cancel. */
  int (*progress)(void* context, const char* stage, double done, double seconds_left);
  void* progress_context;
  const tenon_profile* profiles; /* sizes outside all of them are refused; null: any sizes run */
  size_t profile_count;
  const tenon_carried* state; /* what runs carry from one to the next: see tenon_state */
  size_t state_count;
  const tenon_calibrator* calibrator;
  int32_t lenient;   /* attributes that an operator does not have are left out with a warning, not refused */
  int32_t no_vendor; /* on a GPU: own kernels alone, without cuBLASLt and cuDNN */
} tenon_build_options;
TENON_API void tenon_build_options_init(tenon_build_options* options);

typedef struct tenon_load_options {
  size_t size;
  const tenon_logger* logger;
  const tenon_limits* limits;
} tenon_load_options;
TENON_API void tenon_load_options_init(tenon_load_options* options);

/* From a model: a file, memory that may go afterwards, or an open file, which stays open. Options may be null. */
TENON_API tenon_code tenon_build(const char* model, const tenon_build_options* options, tenon_engine** engine,
                                 tenon_error** error);
TENON_API tenon_code tenon_build_memory(const void* model, size_t bytes, const tenon_build_options* options,
                                        tenon_engine** engine, tenon_error** error);
TENON_API tenon_code tenon_build_fd(int descriptor, const tenon_build_options* options, tenon_engine** engine,
                                    tenon_error** error);
/* From an engine that was saved: a file, memory that is copied, or an open file, which stays open. */
TENON_API tenon_code tenon_load(const char* path, const tenon_load_options* options, tenon_engine** engine,
                                tenon_error** error);
TENON_API tenon_code tenon_load_memory(const void* bytes, size_t size, const tenon_load_options* options,
                                       tenon_engine** engine, tenon_error** error);
TENON_API tenon_code tenon_load_fd(int descriptor, const tenon_load_options* options, tenon_engine** engine,
                                   tenon_error** error);
/* The engine with its kernels timed anew, on options->device. */
TENON_API tenon_code tenon_engine_retune(const tenon_engine* engine, const tenon_build_options* options,
                                         tenon_engine** retuned, tenon_error** error);
/* Sessions outlive the engine that they were made of. */
TENON_API void tenon_engine_free(tenon_engine* engine);
TENON_API tenon_code tenon_engine_save(const tenon_engine* engine, const char* path, tenon_error** error);
/* The bytes that save writes. */
typedef struct tenon_bytes tenon_bytes;
TENON_API tenon_code tenon_engine_serialize(const tenon_engine* engine, tenon_bytes** bytes, tenon_error** error);
TENON_API const void* tenon_bytes_data(const tenon_bytes* bytes);
TENON_API size_t tenon_bytes_size(const tenon_bytes* bytes);
TENON_API void tenon_bytes_free(tenon_bytes* bytes);

TENON_API size_t tenon_engine_input_count(const tenon_engine* engine);
TENON_API size_t tenon_engine_output_count(const tenon_engine* engine);
TENON_API tenon_code tenon_engine_input(const tenon_engine* engine, size_t at, tenon_tensor_info* info,
                                        tenon_error** error);
TENON_API tenon_code tenon_engine_output(const tenon_engine* engine, size_t at, tenon_tensor_info* info,
                                         tenon_error** error);
/* The profiles that it was built for; 0: any sizes run. */
TENON_API size_t tenon_engine_profile_count(const tenon_engine* engine);
/* null behind the last; it lives as long as the engine. */
TENON_API const char* tenon_engine_profile_name(const tenon_engine* engine, size_t at);
/* The least, best and most sizes of an input in a profile; each may be null. */
TENON_API tenon_code tenon_engine_profile_shapes(const tenon_engine* engine, size_t at, const char* input,
                                                 tenon_shape* min, tenon_shape* opt, tenon_shape* max,
                                                 tenon_error** error);
/* "cpu", "cuda:1" */
TENON_API const char* tenon_engine_device(const tenon_engine* engine);
/* "fp32", "int8"; as `precision` of the options */
TENON_API const char* tenon_engine_precision(const tenon_engine* engine);
/* An entry of the model's metadata_props; null where there is none of that key. */
TENON_API const char* tenon_engine_metadata(const tenon_engine* engine, const char* key);
/* The key of entry `at`, in the order of their bytes; null behind the last. */
TENON_API const char* tenon_engine_metadata_key(const tenon_engine* engine, size_t at);

/* ---- sessions ---- */

typedef struct tenon_session tenon_session;

typedef struct tenon_session_options {
  size_t size;
  int32_t threads; /* 0: as many as the engine was built for, at most the cores there are */
  const tenon_shape* shapes;
  size_t shape_count;
  const char* profile; /* whose sizes alone the session takes, in the place of `shapes`; null: those of all */
} tenon_session_options;
TENON_API void tenon_session_options_init(tenon_session_options* options);

TENON_API tenon_code tenon_session_new(const tenon_engine* engine, const tenon_session_options* options,
                                       tenon_session** session, tenon_error** error);
/* Waits for runs of tenon_session_run_async. */
TENON_API void tenon_session_free(tenon_session* session);
/* What runs read as that input, and where they leave that output, until another is bound; null unbinds. Nothing is
 * copied where the tensor is dense and on the engine's device. Outputs must not overlap inputs. */
TENON_API tenon_code tenon_session_bind_input(tenon_session* session, const char* name, const tenon_tensor* tensor,
                                              tenon_error** error);
TENON_API tenon_code tenon_session_bind_output(tenon_session* session, const char* name, const tenon_tensor* tensor,
                                               tenon_error** error);
/* Runs on what is bound; an input that is not is read from the session's own memory. */
TENON_API tenon_code tenon_session_run(tenon_session* session, tenon_error** error);
/* The session's own memory of an input, to be filled before a run. */
TENON_API tenon_code tenon_session_input(tenon_session* session, size_t at, tenon_tensor* tensor, tenon_error** error);
/* An output of the last run: what is bound, else memory of the session that is valid until the next. */
TENON_API tenon_code tenon_session_output(tenon_session* session, size_t at, tenon_tensor* tensor, tenon_error** error);
/* The same on a thread of the session. `done` is called there, with TENON_OK or the error, which it frees; until then
 * the session must not be used, but for more of these, which wait in line. It must not free the session. */
typedef void (*tenon_done_function)(void* context, tenon_code code, tenon_error* error);
TENON_API tenon_code tenon_session_run_async(tenon_session* session, tenon_done_function done, void* context,
                                             tenon_error** error);
/* On a GPU: puts a run on `stream`, a CUstream or cudaStream_t of the device's primary context, and returns. Inputs and
 * outputs that are bound must lie on the device; the others are the session's own memory there. */
TENON_API tenon_code tenon_session_enqueue(tenon_session* session, void* stream, tenon_error** error);
/* The session's own memory of an input or output on the GPU; without data on the CPU. */
TENON_API tenon_code tenon_session_device_input(tenon_session* session, size_t at, tenon_tensor* tensor,
                                                tenon_error** error);
TENON_API tenon_code tenon_session_device_output(tenon_session* session, size_t at, tenon_tensor* tensor,
                                                 tenon_error** error);

/* Bytes of a session, known before its first run and the same after it. */
typedef struct tenon_memory {
  size_t size;
  int64_t arena_bytes, weights_bytes;
  int64_t input_bytes, workspace_bytes; /* on a GPU: inputs as copied there, and what kernels work in */
  int64_t device_bytes;                 /* on a GPU: all that the session allocates there */
} tenon_memory;
TENON_API void tenon_memory_init(tenon_memory* memory);
TENON_API tenon_code tenon_session_memory(const tenon_session* session, tenon_memory* memory, tenon_error** error);

/* ---- state ---- */

/* What runs of an engine that was built with `state` carry from one to the next: caches of attention, states of
 * recurrent layers. A session may use several, one in a run. */
typedef struct tenon_state tenon_state;

/* As a first run takes it: zeros. Sizes that the model leaves open are those of the first run, or `sizes`. */
TENON_API tenon_code tenon_state_new(const tenon_engine* engine, const tenon_shape* sizes, size_t size_count,
                                     tenon_state** state, tenon_error** error);
TENON_API void tenon_state_free(tenon_state* state);
/* As tenon_state_new gave it. */
TENON_API tenon_code tenon_state_reset(tenon_state* state, tenon_error** error);
/* Another of the same content, which goes its own way. */
TENON_API tenon_code tenon_state_fork(const tenon_state* state, tenon_state** fork, tenon_error** error);
/* What the next run takes as that input: memory of the state, valid until then. */
TENON_API tenon_code tenon_state_get(const tenon_state* state, const char* input, tenon_tensor* tensor,
                                     tenon_error** error);
/* Lets the next run take a copy of this. */
TENON_API tenon_code tenon_state_set(tenon_state* state, const char* input, const tenon_tensor* tensor,
                                     tenon_error** error);
/* Runs on these inputs and on the state, which it leaves changed. tenon_session_output then gives the outputs of this
 * run; those that are carried are memory of the state. */
TENON_API tenon_code tenon_session_run_state(tenon_session* session, const tenon_named_tensor* inputs, size_t count,
                                             tenon_state* state, tenon_error** error);

#ifdef __cplusplus
}
#endif
#endif

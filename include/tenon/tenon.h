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
 * structures stay as they are. Engines may be used by any thread; a session by one at a time. A pointer that must not
 * be null, an index behind the last and a name that is not there are TENON_USAGE. */
#include <tenon/tenon_values.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- engines ---- */

typedef struct tenon_engine tenon_engine;

/* An input or output of an engine; a size that may change from run to run is -1. */
typedef struct tenon_tensor_info {
  size_t size;
  const char* name; /* lives as long as the engine */
  tenon_dtype dtype;
  int32_t rank;
  int64_t dims[TENON_MAX_RANK];
} tenon_tensor_info;
TENON_API void tenon_tensor_info_init(tenon_tensor_info* info);

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
  int64_t samples;    /* how many there will be; 0: not known */
  const char* method; /* null: "auto"; "minmax", "percentile", "mse", "entropy", "entropy-legacy" */
  double percentile;  /* for "percentile", 50 to 100: 99.99 by `_init` */
  double max_error;   /* relative squared error at the outputs above which layers stay in floats: 0.001 by `_init` */
  const char* cache;  /* a file that the calibration is read from where it fits, else written to; null: none */
} tenon_calibrator;
TENON_API void tenon_calibrator_init(tenon_calibrator* calibrator);

/* What an engine is worth, in points of a metric: 0 to 100. */
typedef struct tenon_score {
  size_t size;
  double value;
  double drop;           /* below the floating point engine's value, on the same data */
  double low, high;      /* 95 % interval of the drop */
  const char* objection; /* why the engine is not good enough whatever its drop; null: it is. Read at once. */
  double distance;       /* how far outputs are from the floating point engine's, in any unit; 0: not measured */
} tenon_score;
TENON_API void tenon_score_init(tenon_score* score);

/* Judges engines on the caller's data: a build in "int8", "fp8" or "best" gives the fastest engine found that loses at
 * most so many points. Both functions are called by the thread that builds, and return 0; anything else cancels the
 * build. The engine is the build's: it must not be freed, and lives until they return. */
typedef struct tenon_judge {
  size_t size;
  /* Runs the floating point engine, which the others will be compared with, and gives its value. Called first, once. */
  int32_t (*reference)(void* context, const tenon_engine* engine, double* value);
  /* `score` is as `_init` leaves it. */
  int32_t (*score)(void* context, const tenon_engine* engine, tenon_score* score);
  void* context;
  const char* metric; /* its name; null: "score" */
  int64_t samples;    /* how many it is of; 0: not known */
  double max_drop;    /* points that may be lost: 0.1 by `_init` */
} tenon_judge;
TENON_API void tenon_judge_init(tenon_judge* judge);

typedef struct tenon_build_options {
  size_t size;
  const char* device;        /* null: "cpu" */
  const char* precision;     /* null: "fp32"; "tf32", "fp16", "bf16", "best", with a calibrator "int8", "fp8" */
  const tenon_shape* shapes; /* of inputs that are dynamic in the model; -1 is not given */
  size_t shape_count;
  int32_t threads;            /* 1 to 1024; 0: the cores this process may use */
  double budget_seconds;      /* time for tuning; below 0, as `_init` has it: until every tactic is measured; 0: none */
  const char* timing_cache;   /* a file; null: in the user's cache folder; "-": none */
  const char* external_root;  /* a folder that external data may lie in; null: none but the model's own */
  int32_t strict;             /* no Winograd or Strassen; on a GPU f32 on plain units, bytes with the CPU's bits */
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
  int32_t lenient;          /* attributes that an operator does not have are left out with a warning, not refused */
  int32_t no_vendor;        /* on a GPU: own kernels alone, without cuBLASLt and cuDNN */
  const tenon_judge* judge; /* beside a calibrator; null: layers are chosen by its max_error */
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

/* Text, which ends with a zero that its size does not count. */
typedef enum tenon_text_format TENON_ENUM_INT { TENON_TEXT = 0, TENON_JSON = 1 } tenon_text_format;
/* Inputs, outputs and ops, the memory of a session, and as text every step that runs with its kernel and the places of
 * its operands, as `tenon inspect --stage plan` prints. `threads` 0: as many as the engine was built for. */
TENON_API tenon_code tenon_engine_inspect(const tenon_engine* engine, tenon_text_format format, int32_t threads,
                                          tenon_bytes** text, tenon_error** error);
typedef struct tenon_why_options {
  size_t size;
  tenon_text_format format;
  const char* node; /* of the model: what concerns it alone, in text; null: all */
  int32_t recorded; /* runs nothing: the times are those of the build */
  int32_t all;      /* in text: every step in order, all refusals of kernels, and nodes that need no step */
  int32_t threads;
} tenon_why_options;
TENON_API void tenon_why_options_init(tenon_why_options* options);
/* The kernel and time of every node, candidates or why they refuse, and what to do, as `tenon why` prints. */
TENON_API tenon_code tenon_engine_why(const tenon_engine* engine, const tenon_why_options* options, tenon_bytes** text,
                                      tenon_error** error);

/* ---- sessions ---- */

typedef struct tenon_session tenon_session;

typedef struct tenon_session_options {
  size_t size;
  int32_t threads; /* 1 to 1024; 0: as many as the engine was built for, at most the cores there are */
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
/* The session's own memory of an input, to be filled before a run. Strings have none: bind them. */
TENON_API tenon_code tenon_session_input(tenon_session* session, size_t at, tenon_tensor* tensor, tenon_error** error);
/* An output of the last run: what is bound, else memory of the session that is valid until the next. Strings are valid
 * until this is asked again, or the next run. */
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

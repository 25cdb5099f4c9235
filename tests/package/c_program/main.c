// SPDX-License-Identifier: Apache-2.0
/* An engine from C: built, saved, loaded, run in four ways with equal results, and faults of each kind.
 * usage: main MODEL.onnx ENGINE.tenon */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define REQUIRE(condition)                                                        \
  do {                                                                            \
    if (!(condition)) {                                                           \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);             \
      exit(1);                                                                    \
    }                                                                             \
  } while (0)

static void must(tenon_code code, tenon_error* error) {
  if (code == TENON_OK) return;
  fprintf(stderr, "%s\n", tenon_error_text(error));
  exit(1);
}

static int infos = 0, errors = 0;
static void on_message(void* context, tenon_severity severity, const char* message) {
  REQUIRE(context == &infos && message[0] != 0);
  infos += severity == TENON_SEVERITY_INFO;
  errors += severity == TENON_SEVERITY_ERROR;
}

static volatile int finished = 0;
static void on_done(void* context, tenon_code code, tenon_error* error) {
  REQUIRE(code == TENON_OK && error == NULL);
  *(volatile int*)context = 1;
}

static tenon_engine* built(const char* path) {
  tenon_engine* engine = NULL;
  tenon_error* error = NULL;
  tenon_logger logger;
  tenon_build_options options;
  tenon_logger_init(&logger);
  logger.log = on_message;
  logger.context = &infos;
  tenon_build_options_init(&options);
  options.budget_seconds = 0;
  options.timing_cache = "-";
  options.logger = &logger;
  must(tenon_build(path, &options, &engine, &error), error);
  REQUIRE(infos > 0 && errors == 0);

  REQUIRE(tenon_build("/nonexistent.onnx", &options, &engine, &error) == TENON_IO);
  REQUIRE(errors == 1);
  REQUIRE(tenon_error_code(error) == TENON_IO && strstr(tenon_error_where(error), "/nonexistent.onnx"));
  REQUIRE(strlen(tenon_error_message(error)) > 0 && strlen(tenon_error_why(error)) > 0);
  tenon_error_free(error);
  REQUIRE(engine == NULL);

  options.precision = "fp31";
  REQUIRE(tenon_build(path, &options, &engine, NULL) == TENON_USAGE);
  options.precision = NULL;
  options.size = 0;
  REQUIRE(tenon_build(path, &options, &engine, NULL) == TENON_USAGE);
  /* A program of before: what stands behind its structure is not read. */
  options.size = offsetof(tenon_build_options, logger);
  options.logger = (const tenon_logger*)1;
  must(tenon_build(path, &options, &engine, &error), error);
  return engine;
}

/* As dlpack.h has it, of a tensor in the memory of the process. */
struct DLTensor {
  void* data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  struct DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
};

/* A tensor goes to DLPack and comes back. */
static void check_dlpack(const tenon_tensor* tensor) {
  tenon_error* error = NULL;
  struct DLManagedTensor *same = NULL, *copy = NULL;
  tenon_tensor back;
  tenon_tensor_init(&back);
  must(tenon_tensor_to_dlpack(tensor, 0, &same, &error), error);
  must(tenon_tensor_to_dlpack(tensor, 1, &copy, &error), error);
  must(tenon_tensor_from_dlpack(&same->dl_tensor, &back, &error), error);
  REQUIRE(back.data == tensor->data && back.dtype == tensor->dtype && back.rank == tensor->rank);
  REQUIRE(memcmp(back.dims, tensor->dims, sizeof back.dims) == 0);
  REQUIRE(copy->dl_tensor.data != tensor->data && copy->dl_tensor.ndim == tensor->rank);
  same->deleter(same);
  copy->deleter(copy);
}

/* What an engine tells of itself. */
static void check_texts(const tenon_engine* engine) {
  tenon_error* error = NULL;
  tenon_bytes* text = NULL;
  tenon_why_options why;
  must(tenon_engine_inspect(engine, TENON_TEXT, 0, &text, &error), error);
  REQUIRE(strstr(tenon_bytes_data(text), "runs     on cpu"));
  REQUIRE(strlen(tenon_bytes_data(text)) == tenon_bytes_size(text));
  tenon_bytes_free(text);
  tenon_why_options_init(&why);
  why.recorded = 1, why.format = TENON_JSON;
  must(tenon_engine_why(engine, &why, &text, &error), error);
  REQUIRE(((const char*)tenon_bytes_data(text))[0] == '{');
  tenon_bytes_free(text);
  why.node = "no such node", why.format = TENON_TEXT;
  REQUIRE(tenon_engine_why(engine, &why, &text, &error) == TENON_USAGE && text == NULL);
  tenon_error_free(error);
}

static void check_faults(tenon_engine* engine, tenon_session* session) {
  tenon_error* error = NULL;
  tenon_tensor tensor;
  tenon_tensor_info info;
  tenon_tensor_init(&tensor);
  tenon_tensor_info_init(&info);
  REQUIRE(tenon_engine_input(engine, 7, &info, NULL) == TENON_USAGE);
  REQUIRE(tenon_session_bind_input(session, "photos", &tensor, &error) == TENON_USAGE);
  tenon_error_free(error);
  tensor.dtype = TENON_F32;
  REQUIRE(tenon_session_bind_input(session, "images", &tensor, &error) == TENON_USAGE);
  REQUIRE(strstr(tenon_error_text(error), "no memory"));
  tenon_error_free(error);
  must(tenon_engine_output(engine, 0, &info, &error), error);
  REQUIRE(tenon_session_bind_output(session, info.name, &tensor, &error) == TENON_USAGE);
  REQUIRE(strstr(tenon_error_text(error), "no memory"));
  tenon_error_free(error);
  tensor.data = &tensor, tensor.dtype = TENON_U8;
  REQUIRE(tenon_session_bind_input(session, "images", &tensor, &error) == TENON_USAGE);
  REQUIRE(strstr(tenon_error_text(error), "u8"));
  tenon_error_free(error);
  tensor.rank = 9;
  REQUIRE(tenon_session_bind_input(session, "images", &tensor, NULL) == TENON_USAGE);
  REQUIRE(tenon_session_run(NULL, NULL) == TENON_USAGE);
  REQUIRE(tenon_session_enqueue(session, NULL, NULL) == TENON_UNSUPPORTED);
  REQUIRE(tenon_load_memory("no engine", 9, NULL, &engine, &error) == TENON_BAD_ENGINE);
  REQUIRE(engine == NULL);
  tenon_error_free(error);
  tenon_error_free(NULL);
  tenon_engine_free(NULL);
}

/* The count of elements; sizes that may change become 1. */
static size_t elements(tenon_tensor_info* info) {
  size_t count = 1;
  int32_t axis;
  for (axis = 0; axis < info->rank; ++axis) {
    if (info->dims[axis] < 0) info->dims[axis] = 1;
    count *= (size_t)info->dims[axis];
  }
  return count;
}

int main(int argc, char** argv) {
  tenon_engine *engine, *loaded = NULL, *copied = NULL;
  tenon_session* session = NULL;
  tenon_error* error = NULL;
  tenon_bytes* bytes = NULL;
  tenon_tensor_info in, out;
  tenon_tensor x, y, own;
  float *input, *output, *first;
  size_t at, count, results;

  REQUIRE(argc == 3 && tenon_version() == TENON_VERSION);
  engine = built(argv[1]);
  must(tenon_engine_save(engine, argv[2], &error), error);
  must(tenon_engine_serialize(engine, &bytes, &error), error);
  must(tenon_load(argv[2], NULL, &loaded, &error), error);
  must(tenon_load_memory(tenon_bytes_data(bytes), tenon_bytes_size(bytes), NULL, &copied, &error), error);
  tenon_bytes_free(bytes);
  tenon_engine_free(engine);
  REQUIRE(tenon_engine_input_count(loaded) == 1 && tenon_engine_output_count(copied) == 1);
  REQUIRE(strcmp(tenon_engine_device(loaded), "cpu") == 0);
  REQUIRE(tenon_engine_metadata(loaded, "no such key") == NULL);
  for (at = 0; tenon_engine_metadata_key(loaded, at); ++at)
    REQUIRE(tenon_engine_metadata(loaded, tenon_engine_metadata_key(loaded, at)));

  tenon_tensor_info_init(&in);
  tenon_tensor_info_init(&out);
  must(tenon_engine_input(loaded, 0, &in, &error), error);
  must(tenon_engine_output(loaded, 0, &out, &error), error);
  must(tenon_session_new(loaded, NULL, &session, &error), error);
  tenon_engine_free(loaded);

  count = elements(&in), results = elements(&out);
  REQUIRE(in.dtype == TENON_F32 && tenon_dtype_size(in.dtype) == sizeof(float));
  input = malloc(count * sizeof(float));
  output = calloc(results, sizeof(float));
  first = malloc(results * sizeof(float));
  for (at = 0; at < count; ++at) input[at] = (float)(at % 255) / 255;

  /* Bound memory of the caller. */
  tenon_tensor_init(&x);
  x.data = input, x.dtype = in.dtype, x.rank = in.rank;
  memcpy(x.dims, in.dims, sizeof x.dims);
  tenon_tensor_init(&y);
  y.data = output, y.dtype = out.dtype, y.rank = out.rank;
  memcpy(y.dims, out.dims, sizeof y.dims);
  must(tenon_session_bind_input(session, in.name, &x, &error), error);
  must(tenon_session_bind_output(session, out.name, &y, &error), error);
  must(tenon_session_run(session, &error), error);
  memcpy(first, output, results * sizeof(float));
  for (at = 0; at < results && first[at] == 0; ++at) {}
  REQUIRE(at < results);

  /* The same on the session's thread. */
  memset(output, 0, results * sizeof(float));
  must(tenon_session_run_async(session, on_done, (void*)&finished, &error), error);
  while (!finished) {}
  REQUIRE(memcmp(first, output, results * sizeof(float)) == 0);

  /* The session's own memory. */
  must(tenon_session_bind_input(session, in.name, NULL, &error), error);
  must(tenon_session_bind_output(session, out.name, NULL, &error), error);
  tenon_tensor_init(&own);
  must(tenon_session_input(session, 0, &own, &error), error);
  memcpy(own.data, input, count * sizeof(float));
  must(tenon_session_run(session, &error), error);
  must(tenon_session_output(session, 0, &own, &error), error);
  REQUIRE(own.data != output && memcmp(first, own.data, results * sizeof(float)) == 0);
  printf("%s type %d %dx%dx%d\n", out.name, (int)own.dtype, (int)own.dims[0], (int)own.dims[1], (int)own.dims[2]);

  check_dlpack(&own);
  check_texts(copied);
  check_faults(copied, session);
  tenon_session_free(session);
  tenon_engine_free(copied);
  free(input), free(output), free(first);
  return 0;
}

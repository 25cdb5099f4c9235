// SPDX-License-Identifier: Apache-2.0
#ifndef TENON_CUSTOM_OP_H
#define TENON_CUSTOM_OP_H
/* Ops of one's own, for models that use operators which Tenon lacks. A plugin is a shared library with one function,
 * tenon_plugin, and needs nothing of Tenon but this header, at build or at run time. It is loaded only where it is
 * named: by tenon::load_plugin, tenon_load_plugin or `--plugin FILE`. Its code runs in the process with all its rights.
 * Functions return 0, or anything else for a failure, which they may explain by api->fail before. */
#include <stddef.h>
#include <stdint.h>
#include <tenon/export.h>
#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised where a function or structure of this header changes its meaning. Members added to the ends of structures do
 * not: their sizes tell them. */
#define TENON_PLUGIN_VERSION 1

/* A node of a graph: valid during the call that gets it. */
typedef struct tenon_op_node tenon_op_node;

/* What an op may ask of Tenon. Functions for attributes return 1 and give the value where the node has an attribute of
 * that name and type, else 0; pointers that they give are valid during the call. */
typedef struct tenon_op_api {
  size_t size;
  int32_t version; /* TENON_PLUGIN_VERSION of the Tenon that runs */
  const char* (*name)(const tenon_op_node* node);
  int (*attribute_int)(const tenon_op_node* node, const char* name, int64_t* value);
  int (*attribute_float)(const tenon_op_node* node, const char* name, float* value);
  int (*attribute_text)(const tenon_op_node* node, const char* name, const char** value);
  int (*attribute_ints)(const tenon_op_node* node, const char* name, const int64_t** values, size_t* count);
  int (*attribute_floats)(const tenon_op_node* node, const char* name, const float** values, size_t* count);
  /* Says why the present call fails; the text is copied. */
  void (*fail)(const tenon_op_node* node, const char* why);
} tenon_op_api;

/* What is known of an operand before a run. */
typedef struct tenon_op_type {
  tenon_dtype dtype;            /* TENON_UNDEFINED: an optional input that is absent */
  int32_t rank;                 /* -1: unknown */
  int64_t dims[TENON_MAX_RANK]; /* -1: unknown */
} tenon_op_type;

/* An operand of a run: dense and row-major. */
typedef struct tenon_op_tensor {
  tenon_op_type type;
  void* data; /* null for an absent input */
} tenon_op_tensor;

typedef struct tenon_custom_op {
  size_t size;
  const char* domain; /* not "", "ai.onnx" or "tenon" */
  const char* name;
  int32_t min_inputs, max_inputs; /* at most -1: any number */
  int32_t min_outputs, max_outputs;
  void* context; /* passed to the functions; lives as long as the process */
  /* Sets the types of the outputs from those of the inputs. Where all sizes of the inputs are known, all of the
   * outputs' must be, too. */
  int (*infer)(void* context, const tenon_op_api* api, const tenon_op_node* node, const tenon_op_type* inputs,
               size_t input_count, tenon_op_type* outputs, size_t output_count);
  /* Computes the outputs, in the memory of the process. Called by any thread, for several runs at once. */
  int (*compute)(void* context, const tenon_op_api* api, const tenon_op_node* node, const tenon_op_tensor* inputs,
                 size_t input_count, const tenon_op_tensor* outputs, size_t output_count);
  /* Puts the work on a CUDA stream (a CUstream), with operands in the memory of its device. It is recorded once and
   * replayed: it launches kernels and copies on that stream, and neither waits nor allocates. Null: on a GPU's engine
   * the op runs on the CPU, with copies. */
  int (*enqueue)(void* context, const tenon_op_api* api, const tenon_op_node* node, const tenon_op_tensor* inputs,
                 size_t input_count, const tenon_op_tensor* outputs, size_t output_count, void* stream);
} tenon_custom_op;

typedef struct tenon_plugin_host {
  size_t size;
  int32_t version;
  /* The structure and its text are copied. Fails where an op of that domain and name is known already. */
  int (*add)(const struct tenon_plugin_host* host, const tenon_custom_op* op);
} tenon_plugin_host;

/* Loads a plugin and adds its ops to those that models may use, for the process: before models that use them are built,
 * and engines loaded. Not while another thread builds, loads or runs. A second time for one file does nothing. */
TENON_API tenon_code tenon_load_plugin(const char* path, tenon_error** error);

/* What a plugin defines: it adds its ops, and returns 0. It should refuse a host of another version. */
__attribute__((visibility("default"))) int tenon_plugin(const tenon_plugin_host* host);

#ifdef __cplusplus
}
#endif
#endif

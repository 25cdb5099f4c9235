// SPDX-License-Identifier: Apache-2.0
/* A plugin with one op, example.custom::ClipNorm: each row of X scaled so that its Euclidean norm is at most the attribute
 * "limit". It needs nothing of Tenon but a header:
 *   cc -std=c11 -O2 -shared -fPIC -I../../include clip_norm.c -o clip_norm.so -lm */
#include <math.h>
#include <tenon/custom_op.h>

static int infer(void* context, const tenon_op_api* api, const tenon_op_node* node, const tenon_op_type* inputs,
                 size_t input_count, tenon_op_type* outputs, size_t output_count) {
  (void)context, (void)input_count, (void)output_count;
  float limit;
  if (!api->attribute_float(node, "limit", &limit) || !(limit > 0)) {
    api->fail(node, "it needs a positive attribute \"limit\"");
    return 1;
  }
  if (inputs[0].dtype != TENON_F32 || inputs[0].rank == 0) {
    api->fail(node, "X must be rows of f32");
    return 1;
  }
  outputs[0] = inputs[0]; /* Y has X's type and sizes. */
  return 0;
}

static int compute(void* context, const tenon_op_api* api, const tenon_op_node* node, const tenon_op_tensor* inputs,
                   size_t input_count, const tenon_op_tensor* outputs, size_t output_count) {
  (void)context, (void)input_count, (void)output_count;
  const tenon_op_type* type = &inputs[0].type;
  const float* x = inputs[0].data;
  float* y = outputs[0].data;
  const int64_t length = type->dims[type->rank - 1];
  int64_t rows = 1;
  float limit = 1;
  api->attribute_float(node, "limit", &limit);
  for (int32_t axis = 0; axis + 1 < type->rank; ++axis) rows *= type->dims[axis];
  for (int64_t row = 0; row < rows; ++row, x += length, y += length) {
    double sum = 0;
    for (int64_t at = 0; at < length; ++at) sum += (double)x[at] * x[at];
    const double norm = sqrt(sum);
    const float scale = norm > limit ? (float)(limit / norm) : 1.0f;
    for (int64_t at = 0; at < length; ++at) y[at] = x[at] * scale;
  }
  return 0;
}

int tenon_plugin(const tenon_plugin_host* host) {
  const tenon_custom_op op = {.size = sizeof op,
                              .domain = "example.custom",
                              .name = "ClipNorm",
                              .min_inputs = 1,
                              .max_inputs = 1,
                              .min_outputs = 1,
                              .max_outputs = 1,
                              .infer = infer,
                              .compute = compute};
  if (host->version != TENON_PLUGIN_VERSION) return 1;
  return host->add(host, &op);
}

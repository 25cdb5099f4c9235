// SPDX-License-Identifier: Apache-2.0
/* A plugin that claims an op of Tenon's own domain. */
#include <tenon/custom_op.h>

static int infer(void* context, const tenon_op_api* api, const tenon_op_node* node, const tenon_op_type* inputs,
                 size_t input_count, tenon_op_type* outputs, size_t output_count) {
  (void)context, (void)api, (void)node, (void)inputs, (void)input_count, (void)outputs, (void)output_count;
  return 0;
}

static int compute(void* context, const tenon_op_api* api, const tenon_op_node* node, const tenon_op_tensor* inputs,
                   size_t input_count, const tenon_op_tensor* outputs, size_t output_count) {
  (void)context, (void)api, (void)node, (void)inputs, (void)input_count, (void)outputs, (void)output_count;
  return 0;
}

int tenon_plugin(const tenon_plugin_host* host) {
  const tenon_custom_op op = {
      .size = sizeof op, .domain = "tenon", .name = "Mine", .min_inputs = 1, .max_inputs = 1, .min_outputs = 1,
      .max_outputs = 1, .infer = infer, .compute = compute};
  return host->add(host, &op);
}

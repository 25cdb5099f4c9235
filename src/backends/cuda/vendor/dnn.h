// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "backends/cuda/runtime/driver.h"

/// The part of cuDNN's graph interface (version 9) that Tenon uses, by our own declarations; opened at run time.
namespace tenon::cuda {

using DnnHandle = struct DnnHandleTag*;

namespace dnn_constants {
constexpr int f16 = 2, bf16 = 9, f32 = 0;  // data types
// Kinds of descriptors, and their attributes.
constexpr int pointwise = 0, pointwise_mode = 0, pointwise_type = 1, swish_beta = 8, lower_clip = 3, upper_clip = 4;
constexpr int convolution = 1, conv_type = 100, conv_mode = 101, conv_dilations = 102, conv_strides = 103,
              conv_post_pads = 104, conv_pre_pads = 105, conv_axes = 106;
constexpr int engine_config = 3;
constexpr int heuristics = 4, heuristics_mode = 200, heuristics_graph = 201, heuristics_results = 202;
constexpr int execution_plan = 5, plan_handle = 400, plan_config = 401, plan_workspace = 402;
constexpr int forward = 10, forward_alpha = 700, forward_beta = 701, forward_conv = 702, forward_w = 703,
              forward_x = 704, forward_y = 705;
constexpr int step = 13, step_pointwise = 750, step_x = 751, step_b = 752, step_y = 753;
constexpr int operation_graph = 15, graph_handle = 800, graph_operations = 801;
constexpr int variant_pack = 16, pack_ids = 1000, pack_pointers = 1001, pack_workspace = 1003;
constexpr int tensor = 17, tensor_alignment = 900, tensor_type = 901, tensor_sizes = 902, tensor_strides = 903,
              tensor_id = 906, tensor_virtual = 907;
// Types of attributes.
constexpr int of_handle = 0, of_type = 1, of_bool = 2, of_i64 = 3, of_f32 = 4, of_f64 = 5, of_pointer = 6,
              of_conv_mode = 7, of_heuristics_mode = 8, of_pointwise_mode = 14, of_descriptor = 15;
constexpr int cross_correlation = 1, mode_a = 3;
constexpr int add = 0, relu = 100, sigmoid = 102, swish = 106;  // pointwise modes
}  // namespace dnn_constants

/// Result of every function but the version: 0 is success.
struct Dnn {
  size_t (*GetVersion)();
  int (*Create)(DnnHandle*);
  int (*SetStream)(DnnHandle, Stream);
  int (*BackendCreateDescriptor)(int kind, void**);
  int (*BackendDestroyDescriptor)(void*);
  int (*BackendFinalize)(void*);
  int (*BackendSetAttribute)(void*, int attribute, int type, int64_t count, const void*);
  int (*BackendGetAttribute)(void*, int attribute, int type, int64_t wanted, int64_t* count, void*);
  int (*BackendExecute)(DnnHandle, void* plan, void* pack);

  Library library;
  std::string why;  // why it cannot be used; empty when it can
};

/// Opened at the first call. With `why` set, none of its functions may be called.
const Dnn& dnn();
/// The library's state for the current device, made once for each. Throws Error(unsupported).
DnnHandle dnn_handle(int device);
/// Puts a plan's work on the stream, one thread at a time. Throws Error(unsupported).
void dnn_execute(DnnHandle handle, Stream stream, void* plan, void* pack);
/// Throws Error(unsupported) naming the call for a result other than 0.
void check_dnn(int result, const char* call);

/// A descriptor of the library, destroyed with it.
class DnnDescriptor {
 public:
  explicit DnnDescriptor(int kind);
  DnnDescriptor(DnnDescriptor&& other) noexcept { std::swap(made_, other.made_); }
  DnnDescriptor& operator=(DnnDescriptor&&) = delete;
  ~DnnDescriptor();
  void* get() const { return made_; }
  void set(int attribute, int type, int64_t count, const void* values);
  void set(int attribute, int type, int value) { set(attribute, type, 1, &value); }
  void set(int attribute, int64_t value) { set(attribute, dnn_constants::of_i64, 1, &value); }
  void set(int attribute, const std::vector<int64_t>& values) {
    set(attribute, dnn_constants::of_i64, static_cast<int64_t>(values.size()), values.data());
  }
  void set(int attribute, const DnnDescriptor& other) { set(attribute, dnn_constants::of_descriptor, 1, &other.made_); }
  void finalize();

 private:
  void* made_ = nullptr;
};

}  // namespace tenon::cuda

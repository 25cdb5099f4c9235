// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <tenon/tenon.hpp>
#include <vector>

/// What stands behind the handles of tenon.h.
struct tenon_error {
  tenon::Error error;
  std::string text;
};

struct tenon_bytes {
  tenon::Buffer buffer;
};

struct tenon_engine {
  tenon::Engine engine;
  std::vector<tenon::TensorInfo> inputs, outputs;
  std::string device, precision;
  std::vector<tenon::Profile> profiles;
};

struct tenon_session {
  tenon::Session session;
  std::vector<tenon::Tensor> outputs = {};                   // of a run with a state, where that was the last
  std::map<size_t, std::vector<tenon_string>> strings = {};  // that were asked for, by output
};

struct tenon_state {
  tenon::State state;
};

namespace tenon::api {

/// The error as an object for C; never throws.
tenon_code tell(const Error& error, tenon_error** to) noexcept;
/// What is being handled, as one.
tenon_code tell_current(tenon_error** to) noexcept;

/// Runs `work`; what it throws becomes a code and an error.
template <class Work>
tenon_code guarded(tenon_error** error, const Work& work) noexcept {
  if (error) *error = nullptr;
  try {
    work();
    return TENON_OK;
  } catch (...) {
    return tell_current(error);
  }
}

/// Throws Error(usage) for a null pointer.
template <class T>
T& required(T* pointer, const char* name) {
  if (!pointer) throw Error(Code::usage, std::string(name) + " is null");
  return *pointer;
}

/// A structure of the caller, in which members that it does not have yet are as `_init` leaves them.
template <class T>
T read(const T* given, void (*init)(T*), const char* name) {
  T own;
  init(&own);
  if (!given) return own;
  if (given->size < sizeof(size_t))
    throw Error(Code::usage, std::string(name) + " has no size", {.hint = "call its _init first"});
  const size_t size = std::min(given->size, sizeof own);
  std::memcpy(static_cast<void*>(&own), given, size);
  own.size = sizeof own;
  return own;
}

/// Writes what of `own` the caller's structure has.
template <class T>
void write(T own, T* to, const char* name) {
  if (required(to, name).size < sizeof(size_t))
    throw Error(Code::usage, std::string(name) + " has no size", {.hint = "call its _init first"});
  own.size = to->size;
  std::memcpy(static_cast<void*>(to), &own, std::min(to->size, sizeof own));
}

/// An empty tensor for null.
Tensor tensor_of(const tenon_tensor* given);
/// Where `strings` is given, it holds what the form of a tensor of strings points to; without it there are none. The
/// strings themselves are those of the tensor.
tenon_tensor form_of(const Tensor& tensor, std::vector<tenon_string>* strings = nullptr);
tenon_engine handle_of(const Engine& engine);
Shapes shapes_of(const tenon_shape* shapes, size_t count);
Logger logger_of(const tenon_logger* given);
std::optional<Limits> limits_of(const tenon_limits* given);
std::map<std::string, Tensor> tensors_of(const tenon_named_tensor* given, size_t count);
/// Fills what calibrates a build; nothing for null.
void calibrate_by(const tenon_calibrator* given, BuildOptions& options);
void judge_by(const tenon_judge* given, BuildOptions& options);

}  // namespace tenon::api

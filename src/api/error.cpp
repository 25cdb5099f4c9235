// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"

namespace tenon::api {
namespace {

/// What is told where there is no memory left to tell more.
tenon_error& out_of_memory() {
  static tenon_error error{Error(Code::resource, "not enough memory"), "error: not enough memory"};
  return error;
}

}  // namespace

tenon_code tell(const Error& error, tenon_error** to) noexcept {
  try {
    if (to) *to = new tenon_error{error, error.text()};
  } catch (...) {
    *to = &out_of_memory();
  }
  return static_cast<tenon_code>(error.code());
}

tenon_code tell_current(tenon_error** to) noexcept {
  try {
    try {
      throw;
    } catch (const Error& error) {
      return tell(error, to);
    } catch (const std::bad_alloc&) {
      if (to) *to = &out_of_memory();
      return TENON_RESOURCE;
    } catch (const std::exception& fault) {
      return tell(Error(Code::internal, "a fault in Tenon", {.why = fault.what(), .hint = "please report this"}), to);
    }
  } catch (...) {
    if (to) *to = &out_of_memory();
    return TENON_INTERNAL;
  }
}

}  // namespace tenon::api

extern "C" {

int tenon_version(void) { return tenon::version_number(); }
const char* tenon_version_text(void) { return tenon::version(); }

tenon_code tenon_error_code(const tenon_error* error) {
  return error ? static_cast<tenon_code>(error->error.code()) : TENON_OK;
}
const char* tenon_error_message(const tenon_error* error) { return error ? error->error.what() : ""; }
const char* tenon_error_where(const tenon_error* error) { return error ? error->error.where().c_str() : ""; }
const char* tenon_error_node(const tenon_error* error) { return error ? error->error.node().c_str() : ""; }
const char* tenon_error_why(const tenon_error* error) { return error ? error->error.why().c_str() : ""; }
const char* tenon_error_hint(const tenon_error* error) { return error ? error->error.hint().c_str() : ""; }
const char* tenon_error_text(const tenon_error* error) { return error ? error->text.c_str() : ""; }

void tenon_error_free(tenon_error* error) {
  if (error != &tenon::api::out_of_memory()) delete error;
}

void tenon_logger_init(tenon_logger* logger) { *logger = {sizeof *logger, nullptr, nullptr, TENON_SEVERITY_INFO}; }
void tenon_tensor_init(tenon_tensor* tensor) { *tensor = {.size = sizeof *tensor}; }
void tenon_tensor_info_init(tenon_tensor_info* info) { *info = {.size = sizeof *info}; }
void tenon_limits_init(tenon_limits* limits) { *limits = {.size = sizeof *limits}; }
void tenon_memory_init(tenon_memory* memory) { *memory = {.size = sizeof *memory}; }
void tenon_calibrator_init(tenon_calibrator* calibrator) {
  const tenon::CalibrationOptions usual;
  *calibrator = {.size = sizeof *calibrator, .percentile = usual.percentile, .max_error = usual.target_error};
}
void tenon_load_options_init(tenon_load_options* options) { *options = {.size = sizeof *options}; }
void tenon_session_options_init(tenon_session_options* options) { *options = {.size = sizeof *options}; }
void tenon_build_options_init(tenon_build_options* options) {
  *options = {.size = sizeof *options, .budget_seconds = -1};
}

void tenon_score_init(tenon_score* score) { *score = {.size = sizeof *score}; }
void tenon_judge_init(tenon_judge* judge) { *judge = {.size = sizeof *judge, .max_drop = 0.1}; }
void tenon_why_options_init(tenon_why_options* options) { *options = {.size = sizeof *options}; }

size_t tenon_dtype_size(tenon_dtype dtype) {
  if (dtype == TENON_STRING) return sizeof(tenon_string);
  return tenon::size_of(static_cast<tenon::DType>(dtype));
}
}

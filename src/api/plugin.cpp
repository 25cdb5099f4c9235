// SPDX-License-Identifier: Apache-2.0
#include <tenon/custom_op.h>
#include <tenon/plugin.h>

#include "api/handles.h"

extern "C" tenon_code tenon_load_plugin(const char* path, tenon_error** error) {
  return tenon::api::guarded(error, [&] { tenon::load_plugin(&tenon::api::required(path, "path")); });
}

// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"

using namespace tenon::api;

namespace {

void tell(const tenon::Shapes& shapes, const std::string& input, const char* name, tenon_shape* to) {
  if (!to) return;
  const auto found = shapes.find(input);
  if (found == shapes.end())
    throw tenon::Error(tenon::Code::usage, "the profile has no input \"" + input + "\"");
  *to = {};
  to->input = name;
  to->rank = static_cast<int32_t>(std::min<size_t>(found->second.size(), TENON_MAX_RANK));
  std::copy_n(found->second.begin(), to->rank, to->dims);
}

}  // namespace

extern "C" {

size_t tenon_engine_profile_count(const tenon_engine* engine) { return engine ? engine->profiles.size() : 0; }

const char* tenon_engine_profile_name(const tenon_engine* engine, size_t at) {
  return engine && at < engine->profiles.size() ? engine->profiles[at].name.c_str() : nullptr;
}

tenon_code tenon_engine_profile_shapes(const tenon_engine* engine, size_t at, const char* input, tenon_shape* min,
                                       tenon_shape* opt, tenon_shape* max, tenon_error** error) {
  return guarded(error, [&] {
    const std::vector<tenon::Profile>& profiles = required(engine, "engine").profiles;
    if (at >= profiles.size())
      throw tenon::Error(tenon::Code::usage, "the engine has " + std::to_string(profiles.size()) + " profiles");
    const std::string name = &required(input, "input");
    tell(profiles[at].min, name, input, min);
    tell(profiles[at].opt, name, input, opt);
    tell(profiles[at].max, name, input, max);
  });
}
}

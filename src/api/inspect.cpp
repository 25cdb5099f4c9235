// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"

using namespace tenon::api;

namespace {

tenon::TextFormat format_of(tenon_text_format format) {
  if (format == TENON_TEXT) return tenon::TextFormat::text;
  if (format == TENON_JSON) return tenon::TextFormat::json;
  throw tenon::Error(tenon::Code::usage, "no format of text has the number " + std::to_string(format),
                     {.hint = "give TENON_TEXT or TENON_JSON"});
}

/// The text with a zero behind it.
tenon_bytes* bytes_of(std::string text) {
  const auto keep = std::make_shared<const std::string>(std::move(text));
  return new tenon_bytes{tenon::Buffer(keep->c_str(), keep->size(), keep)};
}

}  // namespace

extern "C" {

tenon_code tenon_engine_inspect(const tenon_engine* engine, tenon_text_format format, int32_t threads,
                                tenon_bytes** text, tenon_error** error) {
  return guarded(error, [&] {
    required(text, "text") = nullptr;
    *text = bytes_of(tenon::inspect(required(engine, "engine").engine, format_of(format), threads));
  });
}

tenon_code tenon_engine_why(const tenon_engine* engine, const tenon_why_options* options, tenon_bytes** text,
                            tenon_error** error) {
  return guarded(error, [&] {
    required(text, "text") = nullptr;
    const tenon_why_options form = read(options, tenon_why_options_init, "options");
    const tenon::Engine& of = required(engine, "engine").engine;
    *text = bytes_of(tenon::why(of, {.format = format_of(form.format),
                                     .node = form.node ? form.node : "",
                                     .measure = form.recorded == 0,
                                     .all = form.all != 0,
                                     .threads = form.threads}));
  });
}
}

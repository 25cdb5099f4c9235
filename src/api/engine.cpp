// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"

namespace tenon::api {
namespace {

Precision precision_of(const char* word) {
  const auto precision = precision_named(word ? word : "fp32");
  if (!precision)
    throw Error(Code::usage, std::string("no precision is called \"") + word + "\"",
                {.where = "precision", .hint = "give fp32, bf16, best or int8; on a GPU also tf32, fp16 or fp8"});
  return *precision;
}

BuildOptions options_of(const tenon_build_options* given) {
  const tenon_build_options form = read(given, tenon_build_options_init, "options");
  BuildOptions options;
  if (form.device) options.device = form.device;
  options.precision = precision_of(form.precision);
  options.shapes = shapes_of(form.shapes, form.shape_count);
  options.threads = form.threads;
  options.budget_seconds = form.budget_seconds;
  if (form.timing_cache) options.timing_cache = form.timing_cache;
  if (form.external_root) options.external_root = form.external_root;
  options.strict = form.strict != 0;
  options.logger = logger_of(form.logger);
  options.limits = limits_of(form.limits);
  for (size_t at = 0; at < form.profile_count; ++at) {
    const tenon_profile& one = (&required(form.profiles, "profiles"))[at];
    options.profiles.push_back({one.name ? one.name : "", shapes_of(one.min, one.min_count),
                                shapes_of(one.opt, one.opt_count), shapes_of(one.max, one.max_count)});
  }
  for (size_t at = 0; at < form.state_count; ++at) {
    const tenon_carried& one = (&required(form.state, "state"))[at];
    options.state.emplace_back(&required(one.output, "the output of a state"),
                               &required(one.input, "the input of a state"));
  }
  calibrate_by(form.calibrator, options);
  judge_by(form.judge, options);
  options.lenient = form.lenient != 0, options.vendor = form.no_vendor == 0;
  if (form.progress)
    options.progress = [call = form.progress, context = form.progress_context](const std::string& stage, double done,
                                                                               double seconds_left) {
      return call(context, stage.c_str(), done, seconds_left) != 0;
    };
  return options;
}

LoadOptions options_of(const tenon_load_options* given) {
  const tenon_load_options form = read(given, tenon_load_options_init, "options");
  return {.logger = logger_of(form.logger), .limits = limits_of(form.limits)};
}

template <class Make>
tenon_code made(tenon_engine** to, tenon_error** error, const Make& make) {
  return guarded(error, [&] {
    required(to, "engine") = nullptr;
    *to = new tenon_engine(handle_of(make()));
  });
}

std::span<const std::byte> memory(const void* bytes, size_t size) {
  if (size > 0) required(bytes ? &bytes : nullptr, "memory");
  return {static_cast<const std::byte*>(bytes), size};
}

void tell_of(const std::vector<TensorInfo>& infos, size_t at, tenon_tensor_info* to) {
  if (at >= infos.size()) throw Error(Code::usage, "the engine has " + std::to_string(infos.size()) + " of these");
  tenon_tensor_info info;
  tenon_tensor_info_init(&info);
  info.name = infos[at].name.c_str();
  info.dtype = static_cast<tenon_dtype>(infos[at].dtype);
  info.rank = static_cast<int32_t>(infos[at].shape.size());
  std::copy_n(infos[at].shape.begin(), std::min<size_t>(infos[at].shape.size(), TENON_MAX_RANK), info.dims);
  write(info, to, "info");
}

}  // namespace

tenon_engine handle_of(const Engine& engine) {
  return {
      engine,           engine.inputs(), engine.outputs(), engine.device().str(), std::string(name(engine.precision())),
      engine.profiles()};
}

}  // namespace tenon::api

using namespace tenon::api;

extern "C" {

tenon_code tenon_build(const char* model, const tenon_build_options* options, tenon_engine** engine,
                       tenon_error** error) {
  return made(engine, error, [&] { return tenon::build(std::string(&required(model, "model")), options_of(options)); });
}

tenon_code tenon_build_memory(const void* model, size_t bytes, const tenon_build_options* options,
                              tenon_engine** engine, tenon_error** error) {
  return made(engine, error, [&] { return tenon::build(memory(model, bytes), options_of(options)); });
}

tenon_code tenon_build_fd(int descriptor, const tenon_build_options* options, tenon_engine** engine,
                          tenon_error** error) {
  return made(engine, error, [&] { return tenon::build_fd(descriptor, options_of(options)); });
}

tenon_code tenon_load(const char* path, const tenon_load_options* options, tenon_engine** engine, tenon_error** error) {
  return made(engine, error, [&] { return tenon::load(std::string(&required(path, "path")), options_of(options)); });
}

tenon_code tenon_load_memory(const void* bytes, size_t size, const tenon_load_options* options, tenon_engine** engine,
                             tenon_error** error) {
  return made(engine, error, [&] { return tenon::load(memory(bytes, size), options_of(options)); });
}

tenon_code tenon_load_fd(int descriptor, const tenon_load_options* options, tenon_engine** engine,
                         tenon_error** error) {
  return made(engine, error, [&] { return tenon::load_fd(descriptor, options_of(options)); });
}

tenon_code tenon_set_limits(const tenon_limits* limits, tenon_error** error) {
  return guarded(error, [&] {
    tenon::Limits given = *limits_of(&required(limits, "limits"));
    if (given.loop_rounds == INT64_MAX) given.loop_rounds = tenon::Limits().loop_rounds;
    tenon::set_limits(given);
  });
}

tenon_code tenon_engine_retune(const tenon_engine* engine, const tenon_build_options* options, tenon_engine** retuned,
                               tenon_error** error) {
  return made(retuned, error, [&] { return tenon::retune(required(engine, "engine").engine, options_of(options)); });
}

void tenon_engine_free(tenon_engine* engine) { delete engine; }

tenon_code tenon_engine_save(const tenon_engine* engine, const char* path, tenon_error** error) {
  return guarded(error, [&] { required(engine, "engine").engine.save(&required(path, "path")); });
}

tenon_code tenon_engine_serialize(const tenon_engine* engine, tenon_bytes** bytes, tenon_error** error) {
  return guarded(error, [&] {
    required(bytes, "bytes") = nullptr;
    *bytes = new tenon_bytes{required(engine, "engine").engine.serialize()};
  });
}

const void* tenon_bytes_data(const tenon_bytes* bytes) { return bytes ? bytes->buffer.data() : nullptr; }
size_t tenon_bytes_size(const tenon_bytes* bytes) { return bytes ? bytes->buffer.size() : 0; }
void tenon_bytes_free(tenon_bytes* bytes) { delete bytes; }

size_t tenon_engine_input_count(const tenon_engine* engine) { return engine ? engine->inputs.size() : 0; }
size_t tenon_engine_output_count(const tenon_engine* engine) { return engine ? engine->outputs.size() : 0; }

tenon_code tenon_engine_input(const tenon_engine* engine, size_t at, tenon_tensor_info* info, tenon_error** error) {
  return guarded(error, [&] { tell_of(required(engine, "engine").inputs, at, info); });
}

tenon_code tenon_engine_output(const tenon_engine* engine, size_t at, tenon_tensor_info* info, tenon_error** error) {
  return guarded(error, [&] { tell_of(required(engine, "engine").outputs, at, info); });
}

const char* tenon_engine_device(const tenon_engine* engine) { return engine ? engine->device.c_str() : ""; }

const char* tenon_engine_precision(const tenon_engine* engine) { return engine ? engine->precision.c_str() : ""; }

const char* tenon_engine_metadata(const tenon_engine* engine, const char* key) {
  if (!engine || !key) return nullptr;
  for (const auto& [name, text] : engine->engine.metadata())
    if (name == key) return text.c_str();
  return nullptr;
}

const char* tenon_engine_metadata_key(const tenon_engine* engine, size_t at) {
  if (!engine || at >= engine->engine.metadata().size()) return nullptr;
  return std::next(engine->engine.metadata().begin(), static_cast<std::ptrdiff_t>(at))->first.c_str();
}
}

// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"

using namespace tenon::api;

extern "C" {

tenon_code tenon_session_new(const tenon_engine* engine, const tenon_session_options* options, tenon_session** session,
                             tenon_error** error) {
  return guarded(error, [&] {
    required(session, "session") = nullptr;
    const tenon_session_options form = read(options, tenon_session_options_init, "options");
    const tenon::Engine& of = required(engine, "engine").engine;
    *session = new tenon_session{form.profile ? of.session(std::string(form.profile), form.threads)
                                              : of.session(form.threads, shapes_of(form.shapes, form.shape_count))};
  });
}

void tenon_session_free(tenon_session* session) { delete session; }

tenon_code tenon_session_bind_input(tenon_session* session, const char* name, const tenon_tensor* tensor,
                                    tenon_error** error) {
  return guarded(error,
                 [&] { required(session, "session").session.bind_input(&required(name, "name"), tensor_of(tensor)); });
}

tenon_code tenon_session_bind_output(tenon_session* session, const char* name, const tenon_tensor* tensor,
                                     tenon_error** error) {
  return guarded(error,
                 [&] { required(session, "session").session.bind_output(&required(name, "name"), tensor_of(tensor)); });
}

tenon_code tenon_session_run(tenon_session* session, tenon_error** error) {
  return guarded(error, [&] {
    required(session, "session").outputs.clear();
    session->session.run();
  });
}

tenon_code tenon_session_input(tenon_session* session, size_t at, tenon_tensor* tensor, tenon_error** error) {
  return guarded(error, [&] { write(form_of(required(session, "session").session.input(at)), tensor, "tensor"); });
}

tenon_code tenon_session_output(tenon_session* session, size_t at, tenon_tensor* tensor, tenon_error** error) {
  return guarded(error, [&] {
    const std::vector<tenon::Tensor>& outputs = required(session, "session").outputs;
    const tenon::Tensor output = at < outputs.size() ? outputs[at] : session->session.output(at);
    write(form_of(output, &session->strings[at]), tensor, "tensor");
  });
}

tenon_code tenon_session_run_async(tenon_session* session, tenon_done_function done, void* context,
                                   tenon_error** error) {
  return guarded(error, [&] {
    required(done ? &done : nullptr, "done");
    required(session, "session").outputs.clear();
    session->session.run_async([done, context](std::vector<tenon::Tensor>, std::exception_ptr fault) {
      tenon_error* told = nullptr;
      const tenon_code code = guarded(&told, [&] {
        if (fault) std::rethrow_exception(fault);
      });
      done(context, code, told);
    });
  });
}

tenon_code tenon_session_enqueue(tenon_session* session, void* stream, tenon_error** error) {
  return guarded(error, [&] { required(session, "session").session.enqueue(stream); });
}

tenon_code tenon_session_device_input(tenon_session* session, size_t at, tenon_tensor* tensor, tenon_error** error) {
  return guarded(error,
                 [&] { write(form_of(required(session, "session").session.device_input(at)), tensor, "tensor"); });
}

tenon_code tenon_session_device_output(tenon_session* session, size_t at, tenon_tensor* tensor, tenon_error** error) {
  return guarded(error,
                 [&] { write(form_of(required(session, "session").session.device_output(at)), tensor, "tensor"); });
}

tenon_code tenon_session_memory(const tenon_session* session, tenon_memory* memory, tenon_error** error) {
  return guarded(error, [&] {
    const tenon::MemoryUse use = required(session, "session").session.memory();
    write({0, use.arena_bytes, use.weights_bytes, use.input_bytes, use.workspace_bytes, use.device_bytes}, memory,
          "memory");
  });
}
}

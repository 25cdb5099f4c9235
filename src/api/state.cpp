// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"

using namespace tenon::api;

extern "C" {

tenon_code tenon_state_new(const tenon_engine* engine, const tenon_shape* sizes, size_t size_count, tenon_state** state,
                           tenon_error** error) {
  return guarded(error, [&] {
    required(state, "state") = nullptr;
    *state = new tenon_state{required(engine, "engine").engine.state(shapes_of(sizes, size_count))};
  });
}

void tenon_state_free(tenon_state* state) { delete state; }

tenon_code tenon_state_reset(tenon_state* state, tenon_error** error) {
  return guarded(error, [&] { required(state, "state").state.reset(); });
}

tenon_code tenon_state_fork(const tenon_state* state, tenon_state** fork, tenon_error** error) {
  return guarded(error, [&] {
    required(fork, "fork") = nullptr;
    *fork = new tenon_state{required(state, "state").state.fork()};
  });
}

tenon_code tenon_state_get(const tenon_state* state, const char* input, tenon_tensor* tensor, tenon_error** error) {
  return guarded(error, [&] {
    write(form_of(required(state, "state").state.get(&required(input, "input"))), tensor, "tensor");
  });
}

tenon_code tenon_state_set(tenon_state* state, const char* input, const tenon_tensor* tensor, tenon_error** error) {
  return guarded(error, [&] {
    required(state, "state").state.set(&required(input, "input"), tensor_of(&required(tensor, "tensor")));
  });
}

tenon_code tenon_session_run_state(tenon_session* session, const tenon_named_tensor* inputs, size_t count,
                                   tenon_state* state, tenon_error** error) {
  return guarded(error, [&] {
    required(session, "session").outputs.clear();
    session->outputs = session->session.run(tensors_of(inputs, count), required(state, "state").state);
  });
}
}

// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/timing.h"

#include <tenon/error.h>

namespace tenon::cuda {

Recording::Recording(Stream stream, const std::function<void()>& work) {
  const Driver& d = driver();
  check(d.StreamBeginCapture(stream, constants::capture_thread_local), "cuStreamBeginCapture");
  CapturedGraph graph = nullptr;
  try {
    work();
  } catch (...) {
    d.StreamEndCapture(stream, &graph);
    if (graph) d.GraphDestroy(graph);
    throw;
  }
  check(d.StreamEndCapture(stream, &graph), "cuStreamEndCapture");
  const int result = d.GraphInstantiate(&exec_, graph, 0);
  d.GraphDestroy(graph);
  check(result, "cuGraphInstantiate");
}

Recording::~Recording() {
  if (exec_) driver().GraphExecDestroy(exec_);
}

void Recording::replay(Stream stream) const { check(driver().GraphLaunch(exec_, stream), "cuGraphLaunch"); }

Mark::Mark(Stream stream) {
  check(driver().EventCreate(&event_, constants::event_without_time), "cuEventCreate");
  check(driver().EventRecord(event_, stream), "cuEventRecord");
}

Mark::~Mark() {
  if (event_) driver().EventDestroy(event_);
}

void Mark::hold(Stream stream) const { check(driver().StreamWaitEvent(stream, event_, 0), "cuStreamWaitEvent"); }

Clock::Clock() {
  check(driver().StreamCreate(&stream_, constants::stream_non_blocking), "cuStreamCreate");
  check(driver().EventCreate(&begin_, 0), "cuEventCreate");
  check(driver().EventCreate(&end_, 0), "cuEventCreate");
}

Clock::~Clock() {
  driver().EventDestroy(begin_);
  driver().EventDestroy(end_);
  driver().StreamDestroy(stream_);
}

void Clock::synchronise() const { check(driver().StreamSynchronize(stream_), "cuStreamSynchronize"); }

double Clock::time(const Recording& recording) const {
  const Driver& d = driver();
  check(d.EventRecord(begin_, stream_), "cuEventRecord");
  recording.replay(stream_);
  check(d.EventRecord(end_, stream_), "cuEventRecord");
  check(d.EventSynchronize(end_), "cuEventSynchronize");
  float milliseconds = 0;
  check(d.EventElapsedTime(&milliseconds, begin_, end_), "cuEventElapsedTime");
  return milliseconds * 1e3;
}

}  // namespace tenon::cuda

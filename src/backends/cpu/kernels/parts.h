// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/worker.h"

namespace tenon::cpu {

/// Work that was cut into `parts` for as many workers, done by however many there are: calls run(worker) for those
/// parts that fall to this one, as the worker that each was cut for. No barriers inside.
template <class Run>
void each_part(const Worker& worker, int parts, const Run& run) {
  for (int at = worker.id; at < parts; at += worker.count)
    run(Worker{at, parts, worker.barrier, worker.thread_pool, worker.workspace});
}

}  // namespace tenon::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "backends/cuda/runtime/body.h"
#include "backends/cuda/runtime/timing.h"

namespace tenon::cuda {

/// A node whose bodies are recorded, and replayed as the host finds by conditions that it reads back: each costs a wait
/// for the device.
class HostHop {
 public:
  virtual ~HostHop() = default;
  /// Puts the work on the stream, waiting for it where a condition is wanted.
  virtual void run(Stream stream) = 0;
  /// Of the device's memory that its bodies run in.
  virtual size_t bytes() const = 0;
};

/// Of a node with its operands at these addresses; 0 for absent ones. Records its bodies by way of the launch's stream.
std::unique_ptr<HostHop> make_host_hop(const Problem& problem, const std::vector<std::unique_ptr<Body>>& bodies,
                                       std::vector<Address> inputs, std::vector<Address> outputs,
                                       const Launch& launch);

}  // namespace tenon::cuda

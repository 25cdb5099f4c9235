// SPDX-License-Identifier: Apache-2.0
#include "backends/executable.h"

#include <tenon/error.h>

#include "base/check.h"

namespace tenon::backends {

void fill(Tensor& output, const Tensor& target) {
  if (output.data() == target.data() && output.dims() == target.dims()) {
    output = target;
    return;
  }
  if (!target.on_cpu())
    throw Error(Code::unsupported, "an output cannot be written to memory of " + target.device().str(),
                {.why = "it is an input, a constant, or computed on the CPU", .hint = "bind memory of the process"});
  if (output.dims() != target.dims())
    throw Error(Code::usage, "an output has other sizes than the tensor it is bound to",
                {.why = "it is " + output.dims().str() + ", the tensor " + target.dims().str()});
  output.copy_to(const_cast<void*>(target.data()));
  output = target;
}

void Executable::run(std::span<const Tensor>, std::span<Tensor>, Observer&) {
  TENON_CHECK(false, "values on " + schedule().device.str() + " cannot be observed");
}

std::byte* Executable::address(ir::ValueId) const {
  TENON_CHECK(false, "values on " + schedule().device.str() + " cannot be observed");
  return nullptr;
}

}  // namespace tenon::backends

#include "backends/executable.h"

#include "base/check.h"

namespace tenon::backends {

void Executable::run(std::span<const Tensor>, std::span<Tensor>, Observer&) {
  TENON_CHECK(false, "values on " + schedule().device.str() + " cannot be observed");
}

std::byte* Executable::address(ir::ValueId) const {
  TENON_CHECK(false, "values on " + schedule().device.str() + " cannot be observed");
  return nullptr;
}

}  // namespace tenon::backends

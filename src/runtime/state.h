// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/session.h>

#include <memory>
#include <vector>

#include "engine/engine.h"

namespace tenon {

/// Two memories for each carried tensor: a run reads one and writes the other, and then they change places, so that
/// nothing is copied. They keep room to grow.
struct __attribute__((visibility("hidden"))) State::Impl {
  struct Slot {
    Tensor value;                 // empty before the first run
    Tensor own, other;            // bytes; value lies in the first
  };

  explicit Impl(std::shared_ptr<const EngineAccess::Impl> of, Shapes sizes);
  size_t slot_of(const std::string& input) const;
  const ir::Value& input(size_t slot) const;
  /// What a first run takes; `others`: sizes of the inputs that are given, by symbol.
  Tensor initial(size_t slot, const std::map<std::string, int64_t>& others) const;
  /// Memory for a run to write the slot's next value to.
  Tensor target(size_t slot, const Dims& dims);
  /// Lets a tensor that target() gave, or a copy of another, be the value.
  void take(size_t slot, const Tensor& next);

  std::shared_ptr<const EngineAccess::Impl> engine;
  Shapes sizes;
  std::vector<plan::Carried> carried;
  std::vector<Slot> slots;
};

}  // namespace tenon

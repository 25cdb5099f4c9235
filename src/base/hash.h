// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tenon {

/// XXH3, 64 bits: for integrity, not against an adversary.
uint64_t hash64(std::span<const std::byte> bytes);

/// The same of bytes that come in parts.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  void add(std::span<const std::byte> bytes);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenon

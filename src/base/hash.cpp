// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tenon {

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
void Hasher::add(std::span<const std::byte> bytes) { XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size()); }
uint64_t Hasher::value() const { return XXH3_64bits_digest(&state_->xxh); }

uint64_t hash64(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace tenon

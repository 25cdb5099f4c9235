#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tenon {
uint64_t hash64(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
}  // namespace tenon

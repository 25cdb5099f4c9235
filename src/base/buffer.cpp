// SPDX-License-Identifier: Apache-2.0
#include <tenon/buffer.h>
#include <tenon/tensor.h>

#include <cstring>

namespace tenon {

Buffer Buffer::copy(std::span<const std::byte> bytes) {
  Tensor memory(DType::u8, {static_cast<int64_t>(bytes.size())});
  if (!bytes.empty()) std::memcpy(memory.data(), bytes.data(), bytes.size());
  const void* data = memory.data();
  return {data, bytes.size(), std::make_shared<Tensor>(std::move(memory))};
}

}  // namespace tenon

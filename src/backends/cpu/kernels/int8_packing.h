// SPDX-License-Identifier: Apache-2.0
// Packed weights of integer convolutions, which steps of one engine share.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/kernels/int8/conv_int8.h"
#include "backends/cpu/kernels/int8/packed_bytes.h"
#include "backends/weight_cache.h"
#include "base/hash.h"

namespace tenon::cpu {

struct Int8Packed {
  PackedBytes bytes;
  std::vector<int32_t> start;  // what the sum of each channel begins with
};

// `form`: all that the packed form depends on beside kernel sizes, channels and groups; `tactic`: the address of
// something of the kernel's. `fill(bytes, start)` is called with zeros where nobody has packed them yet.
template <class Fill>
std::shared_ptr<const Int8Packed> packed_int8(const Int8Conv& conv, const void* tactic, size_t bytes, size_t starts,
                                              std::initializer_list<int64_t> form, const Fill& fill) {
  const auto make = [&]() -> std::shared_ptr<const Int8Packed> {
    const auto packed = std::make_shared<Int8Packed>();
    packed->bytes = PackedBytes(bytes);
    packed->start.assign(starts, 0);
    fill(packed->bytes.data(), packed->start.data());
    return packed;
  };
  if (!conv.cache) return make();
  const ConvShape& s = conv.shape;
  const auto number = [](const void* pointer) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer)); };
  const uint64_t hash = hash64(std::as_bytes(std::span(form.begin(), form.size())));
  const int64_t kernel = int64_t{s.kernel_h} << 32 | s.kernel_w;
  return conv.cache->get({number(conv.constant), number(tactic), s.in_c, s.out_c, kernel, s.groups,
                          static_cast<int64_t>(hash), static_cast<int64_t>(bytes), static_cast<int64_t>(starts)},
                         make);
}

}  // namespace tenon::cpu

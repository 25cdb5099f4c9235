// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon::cpu {

// Instruction sets the kernels are built for, in rising order. portable is x86-64-v2 (SSE4.2); amx is avx512 with VNNI,
// BF16 and tiles of bytes and of bfloat16. fused is portable with products added in one rounding, by many instructions,
// as the sets behind it do by one: for engines that are to give the same bits everywhere.
enum class Isa : uint8_t { portable, fused, avx2, avx512, amx };

// The set whose vectors a kernel without a form for tiles uses.
constexpr Isa vectors_of(Isa isa) { return isa == Isa::amx ? Isa::avx512 : isa; }

// The best set that both the processor (CPUID) and the operating system (XGETBV, and for amx its leave) support.
Isa detect_isa();

// Reads "portable", "avx2", "avx512" or "amx"; returns false and leaves `isa` alone for any other text.
bool parse_isa(std::string_view text, Isa& isa);

const char* isa_name(Isa isa);

// Whether this machine multiplies four bytes at once on vectors of that set: AVX512-VNNI, or AVX-VNNI for avx2.
bool has_int8_dot(Isa isa);

// Whether this machine permutes single bytes of vectors of that set: AVX512-VBMI.
bool has_byte_permutes(Isa isa);

// Whether this machine multiplies pairs of bfloat16 on vectors of that set: AVX512-BF16.
bool has_bf16_dot(Isa isa);

}  // namespace tenon::cpu

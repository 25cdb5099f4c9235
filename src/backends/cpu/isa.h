#pragma once

#include <cstdint>
#include <string_view>

namespace tenon::cpu {

// Instruction sets the kernels are built for, in rising order. portable is x86-64-v2 (SSE4.2).
enum class Isa : uint8_t { portable, avx2, avx512 };

// The best set that both the processor (CPUID) and the operating system (XGETBV) support.
Isa detect_isa();

// Reads "portable", "avx2" or "avx512"; returns false and leaves `isa` alone for any other text.
bool parse_isa(std::string_view text, Isa& isa);

const char* isa_name(Isa isa);

// Whether this machine multiplies four bytes at once on vectors of that set: AVX512-VNNI, or AVX-VNNI for avx2.
bool has_byte_dot(Isa isa);

}  // namespace tenon::cpu

#include "backends/cpu/isa.h"

#include <cpuid.h>

namespace tenon::cpu {

namespace {

uint64_t enabled_state() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

}  // namespace

Isa detect_isa() {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return Isa::portable;
  constexpr uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
  constexpr uint32_t needed = fma | osxsave | avx | f16c;
  if ((ecx & needed) != needed) return Isa::portable;
  const uint64_t state = enabled_state();
  constexpr uint64_t ymm = 0x6, zmm = 0xe6;
  if ((state & ymm) != ymm) return Isa::portable;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(ebx & (1u << 5))) return Isa::portable;
  constexpr uint32_t f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31;
  constexpr uint32_t avx512 = f | dq | bw | vl;
  if ((ebx & avx512) == avx512 && (state & zmm) == zmm) return Isa::avx512;
  return Isa::avx2;
}

bool has_byte_dot(Isa isa) {
  if (isa == Isa::portable || detect_isa() < isa) return false;
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (isa == Isa::avx512) return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ecx & (1u << 11));
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & (1u << 4));
}

bool parse_isa(std::string_view text, Isa& isa) {
  for (Isa candidate : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (text != isa_name(candidate)) continue;
    isa = candidate;
    return true;
  }
  return false;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::portable: return "portable";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
  }
  return "?";
}

}  // namespace tenon::cpu

// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tenon::cpu {

namespace {

uint64_t enabled_state() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

// Linux gives a process tiles only when asked, as they enlarge the state of its threads.
bool may_use_tiles() {
  constexpr int request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

bool has_amx(uint64_t state) {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr uint64_t tiles = 0x60000;
  constexpr uint32_t bf16_tiles = 1u << 22, tile = 1u << 24, byte_tiles = 1u << 25, vnni = 1u << 11, bf16 = 1u << 5;
  constexpr uint32_t needed = bf16_tiles | tile | byte_tiles;
  if ((state & tiles) != tiles || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  if ((edx & needed) != needed || !(ecx & vnni)) return false;
  if (!__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) || !(eax & bf16)) return false;
  return may_use_tiles();
}

Isa detect() {
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
  if ((ebx & avx512) != avx512 || (state & zmm) != zmm) return Isa::avx2;
  return has_amx(state) ? Isa::amx : Isa::avx512;
}

}  // namespace

Isa detect_isa() {
  static const Isa isa = detect();
  return isa;
}

namespace {

/// Leaf 7 of the processor's features, asked once: the instruction takes tens of microseconds in a virtual machine.
struct Features {
  uint32_t wide = 0;   // ecx of the first part
  uint32_t later = 0;  // eax of the second
};
const Features& features() {
  static const Features known = [] {
    Features found;
    uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) found.wide = ecx;
    if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) found.later = eax;
    return found;
  }();
  return known;
}

}  // namespace

bool has_int8_dot(Isa isa) {
  if (isa < Isa::avx2 || detect_isa() < isa) return false;
  return isa >= Isa::avx512 ? features().wide & (1u << 11) : features().later & (1u << 4);
}

bool has_byte_permutes(Isa isa) {
  if (isa < Isa::avx512 || detect_isa() < isa) return false;
  return features().wide & (1u << 1);
}

bool has_bf16_dot(Isa isa) {
  if (isa < Isa::avx512 || detect_isa() < isa) return false;
  return features().later & (1u << 5);
}

bool parse_isa(std::string_view text, Isa& isa) {
  for (Isa candidate : {Isa::portable, Isa::avx2, Isa::avx512, Isa::amx}) {
    if (text != isa_name(candidate)) continue;
    isa = candidate;
    return true;
  }
  return false;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::portable: return "portable";
    case Isa::fused: return "fused";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::amx: return "amx";
  }
  return "?";
}

}  // namespace tenon::cpu

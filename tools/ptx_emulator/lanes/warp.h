// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// What runs kernels: warps of 32 lanes, whose registers are lists of 32 numbers each.
namespace tenon::ptx_emulator {

constexpr int lanes_of_warp = 32;
constexpr uint32_t all_lanes = 0xffffffffu;
/// Generic addresses of shared and of local memory begin here; those of other memory are the host's.
constexpr uint64_t shared_window = uint64_t{1} << 56, local_window = uint64_t{2} << 56,
                   window_bytes = uint64_t{1} << 32;

/// What ends a launch: the driver's number for it and why.
struct Fault {
  int result;
  std::string why;
  int lane = -1, index = -1;  // of the thread in its block; of the instruction
};
constexpr int illegal_address = 700, launch_timeout = 702, illegal_instruction = 715, misaligned_address = 716;

/// Bytes that kernels may touch.
struct Range {
  uint64_t begin, end;
};

enum class Access : uint8_t { read, write, atomic };
enum class Space : uint8_t { generic, global, shared, local };  // constants and parameters are global

struct Warp;
struct Instruction;
using Run = void (*)(Warp&, const Instruction&);

constexpr int most_operands = 20;

/// Operands are places in a warp's registers, in bytes; numbers have places there, too.
struct Instruction {
  Run run = nullptr;
  uint32_t guard = 0;  // a predicate's place; 0: none
  bool guard_negated = false;
  bool narrow_address = false;  // of 32 bits
  Space space = Space::generic;
  uint8_t count = 0;  // of numbers that are loaded, stored or made
  uint8_t element_bytes = 0;
  int target = -1;     // of a branch
  int64_t offset = 0;  // added to an address
  uint32_t at[most_operands] = {};
  const std::vector<int>* table = nullptr;  // of brx.idx
  uint32_t members = 0;                     // the place of a mask of lanes that must all be there; 0: none
  int index = 0;
};

/// A copy to shared memory that has begun and is done when its thread waits for it.
struct Copy {
  uint32_t group, to;
  uint64_t from;
  uint8_t lane, bytes, bytes_read;
};

struct Barrier {
  uint32_t arrived = 0, expected = 0;
};

struct Block;

struct Warp {
  std::byte* registers = nullptr;
  Block* block = nullptr;
  int number = 0;
  uint32_t active = 0;  // the lanes that the present instruction is for
  uint32_t group = 0;   // those that stand at pc
  uint32_t live = 0;    // those that have not ended
  uint32_t parked = 0;  // those that wait for others of the warp
  uint32_t held = 0;    // those that wait at a barrier
  uint8_t barrier[lanes_of_warp] = {};
  int pc = 0, limit = 0;  // limit: the least pc of other lanes
  int own_pc[lanes_of_warp] = {};
  std::vector<Copy> copies;
  uint32_t groups[lanes_of_warp] = {};  // of copies that each lane has closed

  template <class T>
  T* lanes(uint32_t place) {
    return reinterpret_cast<T*>(registers + place);
  }
};

/// Who touched a byte of shared memory last, and between which barriers.
struct Touch {
  uint32_t written = 0, read = 0;
  uint8_t writer = 0, reader = 0;
  bool is_atomic = false;  // so it was written
};

/// A block as it runs; one at a time.
struct Block {
  std::byte* shared = nullptr;
  uint32_t shared_bytes = 0;
  std::byte* local = nullptr;  // of all threads, one behind the other
  uint32_t local_bytes = 0;    // of one
  const std::vector<Range>* ranges = nullptr;
  std::vector<Range>* last_range = nullptr;  // by instruction: where it was last
  Barrier barriers[16];
  std::vector<Touch> touches;  // by byte of shared memory; empty: nobody asks
  uint32_t era = 1;            // ends with each barrier
  int64_t steps = 0;
};

#ifndef TENON_ISA_NAMESPACE
#define TENON_ISA_NAMESPACE portable
#endif
/// Apart by instruction set, as these functions stand in files that are compiled for several.
inline namespace TENON_ISA_NAMESPACE {

/// The lanes for which results are made: all where those that do not run have ended.
inline uint32_t lanes_for_results(const Warp& warp) { return warp.active == warp.live ? all_lanes : warp.active; }

/// Calls `work` with each lane's number; a loop without a condition where it is for all.
template <class Work>
[[gnu::always_inline]] inline void for_lanes(uint32_t lanes, const Work& work) {
  if (lanes == all_lanes) {
#pragma GCC ivdep
    for (int lane = 0; lane < lanes_of_warp; ++lane) work(lane);
    return;
  }
  for (; lanes; lanes &= lanes - 1) work(std::countr_zero(lanes));
}

/// The addresses of the active lanes, from a register and what the instruction adds.
void read_addresses(Warp& w, const Instruction& i, uint32_t place, uint64_t* addresses);
/// Where each active lane's bytes are, in the host's memory. Throws where they are not its own or not aligned.
void locate(Warp& w, const Instruction& i, Space space, const uint64_t* addresses, int bytes, Access access,
            std::byte** places);

/// The lanes whose predicate is set. Predicates are numbers of 32 bits, 0 or all ones.
inline uint32_t mask_of(const uint32_t* predicate) {
  uint32_t mask = 0;
  for (int lane = 0; lane < lanes_of_warp; ++lane) mask |= (predicate[lane] & 1u) << lane;
  return mask;
}

}  // namespace TENON_ISA_NAMESPACE

/// Of an opcode: "add", "s32".
using Words = std::vector<std::string>;

inline bool has(const Words& words, const char* word) {
  for (const std::string& one : words)
    if (one == word) return true;
  return false;
}

/// What runs an opcode; nullptr where it is none of these. Each is there once for each instruction set.
#define TENON_PTX_SELECTORS            \
  Run select_bits(const Words&);       \
  Run select_integers(const Words&);   \
  Run select_floats(const Words&);     \
  Run select_comparison(const Words&); \
  Run select_conversion(const Words&); \
  Run select_memory(const Words&);     \
  Run select_warp_wide(const Words&);  \
  Run select_tensor_cores(const Words&);
namespace portable {
TENON_PTX_SELECTORS
}
namespace avx2 {
TENON_PTX_SELECTORS
}

}  // namespace tenon::ptx_emulator

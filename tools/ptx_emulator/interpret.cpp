// SPDX-License-Identifier: Apache-2.0
#include "interpret.h"

#include <algorithm>
#include <climits>
#include <cstring>

namespace tenon::ptx_emulator {
namespace {

constexpr int64_t steps_of_a_turn = 1 << 16, most_steps = int64_t{1} << 33;  // of a block
constexpr int unwritten = 0xff;  // bytes of shared and local memory before; floats of them are no numbers

// ---- lanes of a warp

/// Chooses the lanes with the least pc of those that can go on.
void regroup(Warp& w) {
  const uint32_t free = w.live & ~w.held & ~w.parked;
  w.group = 0, w.limit = INT_MAX, w.pc = INT_MAX;
  for (uint32_t lanes = free; lanes; lanes &= lanes - 1) w.pc = std::min(w.pc, w.own_pc[std::countr_zero(lanes)]);
  for (uint32_t lanes = free; lanes; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes), pc = w.own_pc[lane];
    if (pc == w.pc) w.group |= 1u << lane;
    else w.limit = std::min(w.limit, pc);
  }
}

void note_pc(Warp& w, uint32_t lanes, int pc) {
  for (; lanes; lanes &= lanes - 1) w.own_pc[std::countr_zero(lanes)] = pc;
}

void move_to(Warp& w, int target) {
  if (w.active == w.group) {
    w.pc = target;
    return;
  }
  note_pc(w, w.group & ~w.active, w.pc);
  note_pc(w, w.active, target);
  regroup(w);
}

void branch(Warp& w, const Instruction& i) { move_to(w, i.target); }

void branch_by_table(Warp& w, const Instruction& i) {
  const uint32_t* which = w.lanes<uint32_t>(i.at[0]);
  note_pc(w, w.group & ~w.active, w.pc);
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    if (which[lane] >= i.table->size())
      throw Fault{illegal_instruction,
                  "label " + std::to_string(which[lane]) + " of " + std::to_string(i.table->size()), lane};
    w.own_pc[lane] = (*i.table)[which[lane]];
  }
  regroup(w);
}

void nothing(Warp&, const Instruction&) {}
void trap(Warp&, const Instruction&) { throw Fault{illegal_instruction, "trap"}; }

/// A condition is the address of a word, as graph.cpp makes them.
void set_conditional(Warp& w, const Instruction& i) {
  const auto argument = [&](int at) { return w.lanes<uint64_t>(i.at[at])[std::countr_zero(w.active)]; };
  *reinterpret_cast<uint64_t*>(*reinterpret_cast<const uint64_t*>(argument(0))) =
      *reinterpret_cast<const uint32_t*>(argument(1));
}

// ---- barriers

int threads_of(const std::vector<Warp>& warps, uint32_t Warp::*lanes) {
  int count = 0;
  for (const Warp& one : warps) count += std::popcount(one.*lanes);
  return count;
}

struct Running : Block {
  std::vector<Warp> warps;
};

bool is_complete(const Running& block, const Barrier& barrier) {
  if (barrier.arrived == 0) return false;
  if (barrier.expected > 0) return barrier.arrived >= barrier.expected;
  return static_cast<int>(barrier.arrived) == threads_of(block.warps, &Warp::live);
}

void open(Running& block, int number) {
  for (Warp& one : block.warps) {
    uint32_t freed = 0;
    for (uint32_t lanes = one.held; lanes; lanes &= lanes - 1)
      if (const int lane = std::countr_zero(lanes); one.barrier[lane] == number) freed |= 1u << lane;
    if (freed == 0) continue;
    const int pc = one.own_pc[std::countr_zero(freed)];
    for (uint32_t lanes = freed; lanes; lanes &= lanes - 1)
      if (one.own_pc[std::countr_zero(lanes)] != pc)
        throw Fault{illegal_instruction, "lanes of warp " + std::to_string(one.number) + " came to barrier " +
                                             std::to_string(number) + " at different places"};
    one.held &= ~freed;
  }
  block.barriers[number] = {};
  ++block.era;
}

void arrive(Warp& w, const Instruction& i, bool waits) {
  auto& block = static_cast<Running&>(*w.block);
  const int first = std::countr_zero(w.active);
  const uint32_t number = w.lanes<uint32_t>(i.at[0])[first];
  if (number >= std::size(block.barriers)) throw Fault{illegal_instruction, "barrier " + std::to_string(number), first};
  Barrier& barrier = block.barriers[number];
  const uint32_t expected = i.count ? w.lanes<uint32_t>(i.at[1])[first] : 0;
  if (expected % lanes_of_warp)
    throw Fault{illegal_instruction, "a barrier of " + std::to_string(expected) + " threads, which are no whole warps",
                first};
  if (barrier.arrived > 0 && barrier.expected != expected)
    throw Fault{illegal_instruction,
                "barrier " + std::to_string(number) + " of " + std::to_string(expected) +
                    " threads, others came to it for " + std::to_string(barrier.expected),
                first};
  barrier.expected = expected;
  // A warp counts whole where a count is given.
  barrier.arrived += expected && w.active == w.live ? lanes_of_warp : static_cast<uint32_t>(std::popcount(w.active));
  if (waits) {
    for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1)
      w.barrier[std::countr_zero(lanes)] = static_cast<uint8_t>(number);
    note_pc(w, w.group, w.pc);
    w.held |= w.active;
  }
  if (is_complete(block, barrier)) open(block, static_cast<int>(number));
  if (waits) regroup(w);
}
void wait_at_barrier(Warp& w, const Instruction& i) { arrive(w, i, true); }
void arrive_at_barrier(Warp& w, const Instruction& i) { arrive(w, i, false); }

void end(Warp& w, const Instruction&) {
  auto& block = static_cast<Running&>(*w.block);
  note_pc(w, w.group, w.pc);
  w.live &= ~w.active;
  // Lanes that waited for these look again.
  w.parked = 0;
  for (int number = 0; number < static_cast<int>(std::size(block.barriers)); ++number)
    if (is_complete(block, block.barriers[number])) open(block, number);
  regroup(w);
}

// ---- warps of a block

/// Whether all lanes that an instruction names are there; those that are wait for the others.
bool gathers(Warp& w, const Instruction& i) {
  const uint32_t members = w.lanes<uint32_t>(i.members)[std::countr_zero(w.active)] & w.live;
  if ((members & ~w.active) == 0) return true;
  uint32_t waiting = 0;
  for (uint32_t lanes = w.parked; lanes; lanes &= lanes - 1)
    if (const int lane = std::countr_zero(lanes); w.own_pc[lane] == w.pc - 1) waiting |= 1u << lane;
  if ((members & ~(w.active | waiting)) == 0) {
    w.parked &= ~waiting;
    w.group |= waiting, w.active |= waiting;
    return true;
  }
  note_pc(w, w.group & ~w.active, w.pc);
  note_pc(w, w.active, w.pc - 1);
  w.parked |= w.active;
  regroup(w);
  return false;
}

/// Until the warp waits or its turn is over; the instruction that it stopped at last.
const Instruction* run_warp(Warp& w, const Instruction* code, int64_t turn) {
  const Instruction* at = code;
  int64_t left = turn;
  if (w.group == 0) regroup(w);
  try {
    while (w.group && left > 0) {
      if (w.pc >= w.limit) {
        note_pc(w, w.group, w.pc);
        regroup(w);
      }
      at = code + w.pc++;
      --left;
      w.active = w.group;
      if (at->guard) {
        const uint32_t mask = mask_of(w.lanes<uint32_t>(at->guard));
        w.active &= at->guard_negated ? ~mask : mask;
        if (w.active == 0) continue;
      }
      if (at->members && !gathers(w, *at)) continue;
      at->run(w, *at);
    }
  } catch (Fault& fault) {
    if (fault.lane < 0) fault.lane = std::countr_zero(w.active);
    fault.lane += w.number * lanes_of_warp;
    fault.index = at->index;
    throw;
  }
  w.block->steps += turn - left;
  return at;
}

/// Registers of all warps, shared and local memory; kept from launch to launch.
struct Room {
  std::vector<std::byte> registers, shared, local;
  static std::byte* aligned(std::vector<std::byte>& bytes, size_t size) {
    constexpr size_t alignment = 128;
    if (bytes.size() < size + alignment) bytes.resize(size + alignment);
    const auto at = reinterpret_cast<uintptr_t>(bytes.data());
    return bytes.data() + (alignment - at % alignment) % alignment;
  }
};

template <class T>
void fill(std::byte* place, uint64_t value) {
  std::fill_n(reinterpret_cast<T*>(place), lanes_of_warp, static_cast<T>(value));
}

class Machine {
 public:
  Machine(const Code& code, const Launch& launch) : code_(code), launch_(launch), ranges_(*launch.ranges) {
    static Room room;
    const int64_t threads = launch.block.count();
    const auto warps = static_cast<size_t>((threads + lanes_of_warp - 1) / lanes_of_warp);
    registers_ = Room::aligned(room.registers, warps * code.register_bytes);
    block_.shared_bytes = code.dynamic_shared_begin + launch.dynamic_shared_bytes;
    block_.shared = Room::aligned(room.shared, block_.shared_bytes);
    block_.local_bytes = code.local_bytes;
    block_.local = Room::aligned(room.local, warps * lanes_of_warp * code.local_bytes);
    const auto parameters = reinterpret_cast<uint64_t>(code.parameter_bytes.data());
    ranges_.push_back({parameters, parameters + code.parameter_bytes.size()});
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    last_range_.assign(code.instructions.size(), {1, 0});
    block_.ranges = &ranges_, block_.last_range = &last_range_;
    block_.warps.resize(warps);
    for (size_t at = 0; at < warps; ++at) {
      Warp& w = block_.warps[at];
      w.registers = registers_ + at * code.register_bytes;
      w.block = &block_, w.number = static_cast<int>(at);
      for (const Code::Number& one : code.numbers) put(w, one);
      for (const auto& [name, place] : code.specials) put_special(w, name, place);
    }
  }

  void run(const Dimensions& at) {
    begin(at);
    const Instruction* last = nullptr;
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (Warp& w : block_.warps) {
        if ((w.live & ~w.held & ~w.parked) == 0) continue;
        goes_on = true;
        last = run_warp(w, code_.instructions.data(), steps_of_a_turn);
      }
      if (block_.steps > most_steps) throw Fault{launch_timeout, "it comes to no end", 0, last->index};
    }
    steps_ += block_.steps;
    for (const Warp& w : block_.warps)
      if (w.live) {
        const int lane = std::countr_zero(w.live);
        throw Fault{launch_timeout,
                    std::string("it waits for others that never come, at ") +
                        (w.held & 1u << lane ? "a barrier" : "an instruction of its warp"),
                    w.number * lanes_of_warp + lane, w.own_pc[lane] - (w.held & 1u << lane ? 1 : 0)};
      }
  }

  int64_t steps() const { return steps_; }

 private:
  static void put(Warp& w, const Code::Number& one) {
    std::byte* place = w.registers + one.place;
    if (one.bits == 64) fill<uint64_t>(place, one.value);
    else if (one.bits == 32) fill<uint32_t>(place, one.value);
    else fill<uint16_t>(place, one.value);
  }

  template <class Of>
  static void put_lanes(Warp& w, uint32_t place, const Of& of) {
    for (int lane = 0; lane < lanes_of_warp; ++lane) w.lanes<uint32_t>(place)[lane] = static_cast<uint32_t>(of(lane));
  }

  /// What stays the same for all blocks; the rest are 0 until a block begins.
  void put_special(Warp& w, const std::string& name, uint32_t place) const {
    const Dimensions &b = launch_.block, &g = launch_.grid;
    const auto thread = [&](int lane) { return static_cast<unsigned>(w.number * lanes_of_warp + lane); };
    const auto all = [&](unsigned value) { put_lanes(w, place, [&](int) { return value; }); };
    if (name == "%tid.x") put_lanes(w, place, [&](int l) { return thread(l) % b.x; });
    else if (name == "%tid.y") put_lanes(w, place, [&](int l) { return thread(l) / b.x % b.y; });
    else if (name == "%tid.z") put_lanes(w, place, [&](int l) { return thread(l) / b.x / b.y; });
    else if (name == "%laneid") put_lanes(w, place, [&](int l) { return l; });
    else if (name == "%warpid") all(static_cast<unsigned>(w.number));
    else if (name == "%lanemask_eq") put_lanes(w, place, [&](int l) { return 1u << l; });
    else if (name == "%lanemask_lt") put_lanes(w, place, [&](int l) { return (1u << l) - 1; });
    else if (name == "%lanemask_le") put_lanes(w, place, [&](int l) { return (2u << l) - 1; });
    else if (name == "%lanemask_gt") put_lanes(w, place, [&](int l) { return ~((2u << l) - 1); });
    else if (name == "%lanemask_ge") put_lanes(w, place, [&](int l) { return ~((1u << l) - 1); });
    else if (name == "%ntid.x") all(b.x);
    else if (name == "%ntid.y") all(b.y);
    else if (name == "%ntid.z") all(b.z);
    else if (name == "%nctaid.x") all(g.x);
    else if (name == "%nctaid.y") all(g.y);
    else if (name == "%nctaid.z") all(g.z);
    else if (name == "%dynamic_smem_size") all(launch_.dynamic_shared_bytes);
    else if (name.starts_with("%ctaid.") || name == "%smid") all(0);
    else if (name == "%nsmid") all(1);
    else throw Fault{illegal_instruction, "no " + name + " in the emulator", 0};
  }

  void begin(const Dimensions& at) {
    std::memset(block_.shared, unwritten, block_.shared_bytes);
    std::fill(std::begin(block_.barriers), std::end(block_.barriers), Barrier{});
    block_.touches.assign(launch_.finds_races ? block_.shared_bytes : 0, Touch{});
    block_.steps = 0, block_.era = 1;
    const int64_t threads = launch_.block.count();
    for (Warp& w : block_.warps) {
      const int64_t count = std::min<int64_t>(threads - w.number * lanes_of_warp, lanes_of_warp);
      w.live = count == lanes_of_warp ? all_lanes : (1u << count) - 1;
      w.held = w.parked = w.group = 0;
      std::fill(std::begin(w.own_pc), std::end(w.own_pc), 0);
      std::fill(std::begin(w.groups), std::end(w.groups), 0);
      w.copies.clear();
      for (const auto& [name, place] : code_.specials)
        if (name.starts_with("%ctaid."))
          put_lanes(w, place, [&, which = name.back()](int) {
            return which == 'x' ? at.x : which == 'y' ? at.y : at.z;
          });
    }
  }

  const Code& code_;
  const Launch& launch_;
  std::vector<Range> ranges_, last_range_;
  std::byte* registers_;
  Running block_;
  int64_t steps_ = 0;
};

std::string text_of(const Dimensions& at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

}  // namespace

Run select_control(const Words& words) {
  const std::string& op = words[0];
  const auto is = [&](size_t at, const char* word) { return at < words.size() && words[at] == word; };
  if (op == "bra") return branch;
  if (op == "brx" && is(1, "idx")) return branch_by_table;
  if (op == "ret" || op == "exit") return end;
  if (op == "trap") return trap;
  if (op == "call") return set_conditional;
  if (op == "bar" || op == "barrier") {
    if (is(1, "warp")) return nothing;
    if (has(words, "red") || has(words, "cluster")) return nullptr;
    return has(words, "arrive") ? arrive_at_barrier : wait_at_barrier;
  }
  for (const char* none : {"membar", "nanosleep", "griddepcontrol", "prefetch", "prefetchu", "discard"})
    if (op == none) return nothing;
  if (op == "fence" && !has(words, "proxy") && !has(words, "mbarrier_init")) return nothing;
  return nullptr;
}

int64_t run_kernel(const Code& code, const Launch& launch) {
  if (!code.unknown.empty()) throw Fault{illegal_instruction, "the emulator does not know \"" + code.unknown + "\"", 0};
  Machine machine(code, launch);
  Dimensions at{0, 0, 0};
  for (at.z = 0; at.z < launch.grid.z; ++at.z)
    for (at.y = 0; at.y < launch.grid.y; ++at.y)
      for (at.x = 0; at.x < launch.grid.x; ++at.x) try {
          machine.run(at);
        } catch (Fault& fault) {
          const std::string text = fault.index >= 0 ? code.texts[static_cast<size_t>(fault.index)] : "?";
          fault.why = "block " + text_of(at) + ", thread " + std::to_string(fault.lane) + ": " + fault.why + ", at \"" +
                      text + "\"";
          throw;
        }
  return machine.steps();
}

}  // namespace tenon::ptx_emulator

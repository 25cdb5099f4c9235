// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <optional>

#include "backends/cuda/runtime/kernel.h"

/// One result element from one element of each operand, all strided: elementwise programs, conversions and copies.
namespace tenon::cuda {

constexpr size_t most_map_operands = 8;
constexpr size_t most_map_axes = 8;

/// Elements to visit, with the strides of each operand and, last, of the result. Strides of 0 broadcast.
struct Map {
  Dims dims;
  std::vector<Dims> strides;
  std::vector<std::string> types;  // of CUDA, operands then result
  std::vector<int> sizes;          // bytes of an element
  std::vector<bool> aligned;       // begins at a multiple of 16 bytes
  std::string body;                // statements that set "r" from "v0", "v1", …; empty: a copy of bits
  bool converts = false;           // the body gives its one operand in another type
  bool plain = false;              // "v0", "v1", … and "r" are of the operands' types; else they are floats
  int vector = 1;                  // elements of the last axis at a time
  /// Appends an operand that broadcasts to `dims`, or the result.
  void add(const Operand& operand, const std::string& type);
  /// Drops axes of size 1, joins axes that run on in every operand, and takes vectors where all allow it. False where
  /// too many axes are left.
  bool simplify();
  /// Whether 32 bits hold every offset.
  bool is_small() const;
  /// Vectors of a thread, loaded before the first is stored: several where single elements leave a GPU waiting.
  int each() const;
  /// Whether an operand is read a vector at a time, not as one element for all of it.
  bool is_whole(size_t operand) const { return strides[operand].back() != 0 && vector > 1; }
  Source source() const;
};

/// A copy of bits between elements of `size` bytes: 1, 2, 4 or 8.
Map copy_map(const Dims& dims, const Dims& from, const Dims& to, int size);

/// As the generated kernel has it.
struct MapParams {
  Address operand[most_map_operands + 1];
  int64_t strides[most_map_operands + 1][most_map_axes];
  unsigned dims[most_map_axes];
  unsigned factor[most_map_axes], shift[most_map_axes];  // n / dims is (n * factor / 2^32 + n) / 2^shift
  unsigned count;
};

/// Makes a map of a problem; else the reason why it is none.
using MapOf = Reason (*)(const Problem&, Map&);

/// A map ready to launch; addresses go into operand[], the result last.
class MapLaunch {
 public:
  MapLaunch(const Map& map, Device& device);
  /// The map as a copy that may be one of several in a launch; nullopt where it is more.
  std::optional<CopyPart> copy(Address from, Address to) const;
  void enqueue(Device& device, const Launch& at, const std::vector<Address>& addresses) const;

 private:
  Function function_;
  MapParams params_{};
  Grid grid_;
  std::optional<CopyPart> copy_;
};

/// A step of one map, whose operands are the node's first inputs.
std::unique_ptr<Step> make_map_step(const Map& map, Device& device);

/// A node that is one map over its inputs, as the kernel named "map".
template <MapOf map_of>
Kernel map_kernel(const std::string& op) {
  return {op,
          "map",
          1,
          [](const Problem& problem, const Properties&) {
            Map map;
            return map_of(problem, map);
          },
          [](const Problem& problem, const Properties&) {
            Map map;
            map_of(problem, map);
            return std::vector<Tactic>{{"map", {map.source()}, {}}};
          },
          [](const Problem& problem, Device& device, const Tactic&) {
            Map map;
            map_of(problem, map);
            return make_map_step(map, device);
          }};
}

}  // namespace tenon::cuda

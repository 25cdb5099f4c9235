// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "lanes/warp.h"
#include "ptx.h"

/// Kernels made ready to run: statements of PTX as instructions whose operands have places in a warp's registers.
namespace tenon::ptx_emulator {

struct Code {
  struct Number {
    uint32_t place;
    int bits;
    uint64_t value;
  };
  struct Parameter {
    size_t offset, bytes;
  };

  std::vector<Instruction> instructions;
  std::vector<std::string> texts;            // by instruction
  std::string unknown;                       // the first statement that nothing runs; empty: none
  uint32_t register_bytes = 0;               // of a warp
  std::vector<Number> numbers;               // the same in all lanes
  std::map<std::string, uint32_t> specials;  // places of %tid.x and the like, of 32 bits
  uint32_t static_shared_bytes = 0, dynamic_shared_begin = 0, local_bytes = 0;
  std::vector<Parameter> parameters;
  std::vector<char> parameter_bytes;  // at an address that instructions know
  std::deque<std::vector<int>> tables;
};

/// `variables` are addresses of the program's variables in the host's memory.
Code make_code(const Program& program, const Entry& function, const std::map<std::string, uint64_t>& variables);

/// Instructions that move lanes; in interpret.cpp.
Run select_control(const Words& words);

}  // namespace tenon::ptx_emulator

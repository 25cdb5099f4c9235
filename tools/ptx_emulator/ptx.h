// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// PTX as text says it: what is declared, and the statements of kernels with the registers that they name.
namespace tenon::ptx_emulator {

struct Operand {
  enum class Kind { reg, number, symbol, address, list, none };
  Kind kind = Kind::none;
  int reg = -1;          // index into Entry::registers; of an address the one that is added to
  bool negated = false;  // !%p
  std::string symbol;    // a variable, a label, a special register; of an address what is added to
  uint64_t bits = 0;     // a number; what is added to an address or a symbol
  char form = 'i';       // of a number: i an integer, f the bits of an f32, d those of an f64
  std::vector<Operand> list;
};

struct Statement {
  int guard = -1;  // a predicate; -1: none
  bool guard_negated = false;
  std::vector<std::string> words;  // of the opcode: "ld", "global", "f32"
  std::vector<Operand> operands;
  std::string text;
  std::string fault;  // why it was not understood
};

struct Variable {
  std::string name, space;
  size_t align = 1, bytes = 0;
  bool is_dynamic = false;  // extern
  std::vector<char> values;
};

struct Register {
  int bits = 0;  // 1: a predicate
};

struct Entry {
  std::string name;
  std::vector<Variable> parameters, variables;
  std::vector<Register> registers;
  std::vector<Statement> body;
  std::map<std::string, int> labels;                       // the statement behind each
  std::map<std::string, std::vector<std::string>> tables;  // of brx.idx
  int most_threads = 1024;
};

struct Program {
  int capability = 0;
  std::vector<Variable> variables;
  std::map<std::string, Entry> entries;
};

/// Throws std::runtime_error with the place where the text has no form of PTX. A statement of unknown form has a fault.
Program parse_ptx(std::string_view text);

}  // namespace tenon::ptx_emulator

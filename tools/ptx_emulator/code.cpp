// SPDX-License-Identifier: Apache-2.0
#include "code.h"

#include <algorithm>
#include <stdexcept>

namespace tenon::ptx_emulator {
namespace {

constexpr uint32_t register_alignment = 64;

using Selector = Run (*)(const Words&);
#define TENON_PTX_SELECTORS_OF(isa)                                                                             \
  {                                                                                                             \
    isa::select_bits, isa::select_integers, isa::select_floats, isa::select_comparison, isa::select_conversion, \
        isa::select_memory, isa::select_warp_wide, isa::select_tensor_cores                                     \
  }
std::vector<Selector> selectors() {
#if defined(__x86_64__)
  // Whatever has AVX2 has F16C, which not every compiler can ask for.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return TENON_PTX_SELECTORS_OF(avx2);
#endif
  return TENON_PTX_SELECTORS_OF(portable);
}

Run select(const Words& words) {
  static const std::vector<Selector> found = selectors();
  if (const Run run = select_control(words)) return run;
  for (const Selector one : found)
    if (const Run run = one(words)) return run;
  return nullptr;
}

bool is_any(const std::string& word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* one) { return word == one; });
}

/// In a register; predicates have 32.
int bits_of(const std::string& type) {
  if (type == "pred") return 32;
  const size_t digits = type.find_first_of("0123456789");
  if (digits == std::string::npos) return 32;
  return std::max(16, std::atoi(type.c_str() + digits) * (type.ends_with("x2") ? 2 : 1));
}

size_t up_to(size_t number, size_t multiple) { return (number + multiple - 1) / multiple * multiple; }

class Maker {
 public:
  Maker(const Program& program, const Entry& function, const std::map<std::string, uint64_t>& variables)
      : program_(program), function_(function) {
    for (const auto& [name, address] : variables) symbols_[name] = {address, Space::global};
  }

  Code make() {
    code_.register_bytes = register_alignment;  // place 0 is nobody's
    for (const Register& one : function_.registers)
      places_.push_back(take(one.bits == 1 ? 32 : std::max(16, one.bits)));
    lay_out_parameters();
    lay_out_variables();
    code_.instructions.reserve(function_.body.size() + 1);
    for (const Statement& statement : function_.body) add(statement);
    Statement end;
    end.words = {"ret"}, end.text = "the end";
    add(end);
    return std::move(code_);
  }

 private:
  struct Symbol {
    uint64_t address;
    Space space;
  };

  uint32_t take(int bits) {
    const uint32_t place = code_.register_bytes;
    code_.register_bytes += static_cast<uint32_t>(bits / 8) * lanes_of_warp;
    return place;
  }

  void lay_out_parameters() {
    size_t end = 0;
    for (const Variable& one : function_.parameters) {
      const size_t offset = up_to(end, std::max<size_t>(one.align, 1));
      code_.parameters.push_back({offset, one.bytes});
      end = offset + one.bytes;
    }
    constexpr size_t alignment = 64;
    end = up_to(end, alignment);
    const size_t calls = end;
    for (const Variable& one : function_.variables)
      if (one.space == "param") end = up_to(end, one.align) + one.bytes;
    code_.parameter_bytes.resize(end + alignment);
    const auto begin = up_to(reinterpret_cast<uint64_t>(code_.parameter_bytes.data()), alignment);
    const auto shift = begin - reinterpret_cast<uint64_t>(code_.parameter_bytes.data());
    for (size_t at = 0; at < function_.parameters.size(); ++at) {
      code_.parameters[at].offset += shift;
      symbols_[function_.parameters[at].name] = {
          reinterpret_cast<uint64_t>(code_.parameter_bytes.data()) + code_.parameters[at].offset, Space::global};
    }
    // What a function is called with: such kernels are of one thread.
    uint64_t at = begin + calls;
    for (const Variable& one : function_.variables) {
      if (one.space != "param") continue;
      at = up_to(at, one.align);
      symbols_[one.name] = {at, Space::global};
      at += one.bytes;
    }
  }

  bool names(const Operand& operand, const std::string& name) const {
    return operand.symbol == name ||
           std::any_of(operand.list.begin(), operand.list.end(), [&](const Operand& one) { return names(one, name); });
  }
  bool is_used(const std::string& name) const {
    for (const Statement& statement : function_.body)
      for (const Operand& operand : statement.operands)
        if (names(operand, name)) return true;
    return false;
  }

  void lay_out_variables() {
    size_t shared = 0, local = 0;
    const Variable* dynamic = nullptr;
    const auto place = [&](const Variable& one) {
      if (one.space == "shared" && one.is_dynamic) dynamic = &one;
      if ((one.space != "shared" && one.space != "local") || one.is_dynamic) return;
      size_t& end = one.space == "shared" ? shared : local;
      end = up_to(end, one.align);
      symbols_[one.name] = {end, one.space == "shared" ? Space::shared : Space::local};
      end += one.bytes;
    };
    for (const Variable& one : program_.variables)
      if (is_used(one.name)) place(one);
    for (const Variable& one : function_.variables) place(one);
    code_.static_shared_bytes = static_cast<uint32_t>(shared);
    constexpr size_t least_alignment = 16;
    const size_t begin = up_to(shared, std::max(least_alignment, dynamic ? dynamic->align : least_alignment));
    code_.dynamic_shared_begin = static_cast<uint32_t>(begin);
    if (dynamic) symbols_[dynamic->name] = {begin, Space::shared};
    code_.local_bytes = static_cast<uint32_t>(up_to(local, least_alignment));
  }

  uint32_t number(uint64_t value, int bits) {
    if (bits < 64) value &= (uint64_t{1} << bits) - 1;
    const auto [found, is_new] = numbers_.try_emplace({value, bits}, 0);
    if (is_new) {
      found->second = take(bits);
      code_.numbers.push_back({found->second, bits, value});
    }
    return found->second;
  }

  uint32_t special(const std::string& name) {
    const auto [found, is_new] = code_.specials.try_emplace(name, 0);
    if (is_new) found->second = take(32);
    return found->second;
  }

  uint64_t address_of(const Operand& operand, Space* space = nullptr) {
    if (operand.symbol.empty()) return operand.bits;
    const auto found = symbols_.find(operand.symbol);
    if (found == symbols_.end()) throw std::runtime_error("PTX: nothing is called " + operand.symbol);
    if (space) *space = found->second.space;
    return found->second.address + operand.bits;
  }

  uint32_t place_of(const Operand& operand, int bits) {
    if (operand.kind == Operand::Kind::reg) return places_[static_cast<size_t>(operand.reg)];
    if (operand.kind == Operand::Kind::number) {
      const bool is_cast = operand.form == 'd' && bits == 32;
      return number(
          is_cast ? std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits))) : operand.bits,
          bits);
    }
    if (operand.symbol == "_") return take(bits);
    if (operand.symbol == "WARP_SZ") return number(lanes_of_warp, bits);
    if (operand.symbol.starts_with("%")) return special(operand.symbol);
    return number(address_of(operand), bits);
  }

  int register_bits(const Operand& operand, int otherwise) const {
    if (operand.kind == Operand::Kind::reg)
      return std::max(function_.registers[static_cast<size_t>(operand.reg)].bits, 16);
    if (operand.kind == Operand::Kind::symbol && operand.symbol.starts_with("%")) return 32;
    for (const Operand& one : operand.list)
      if (one.kind == Operand::Kind::reg) return register_bits(one, otherwise);
    return otherwise;
  }

  void put(Instruction& to, const Operand& operand, int bits) {
    if (operand.kind == Operand::Kind::list) {
      for (const Operand& one : operand.list) put(to, one, bits);
      return;
    }
    if (used_ == most_operands) throw std::runtime_error("PTX: too many operands");
    to.at[used_++] = place_of(operand, bits);
  }

  void put_address(Instruction& to, const Operand& operand) {
    if (operand.reg >= 0) {
      to.narrow_address = function_.registers[static_cast<size_t>(operand.reg)].bits == 32;
      to.offset = static_cast<int64_t>(operand.bits);
      to.at[used_++] = places_[static_cast<size_t>(operand.reg)];
    } else {
      to.at[used_++] = number(address_of(operand), 64);
    }
  }

  /// Of each operand but predicates, positions and wide results, the type's.
  static int operand_bits(const Words& words, size_t at) {
    const std::string& op = words[0];
    const int bits = bits_of(words.back());
    if (is_any(op, {"shl", "shr"}) && at == 2) return 32;
    if (is_any(op, {"bfe", "bfi"}) && at >= (op == "bfe" ? 2u : 3u)) return 32;
    if (is_any(op, {"popc", "clz", "bfind"}) && at == 0) return 32;
    if (op == "selp" && at == 3) return 32;
    if (is_any(op, {"mad", "mul"}) && has(words, "wide") && (at == 0 || at == 3)) return 2 * bits;
    if (is_any(op, {"shfl", "shfl2", "vote", "prmt", "lop3", "shf", "dp4a", "mma", "redux"})) return 32;
    if (op == "match" && at != 1) return 32;
    return bits;
  }

  void add(const Statement& statement) {
    Instruction made;
    made.index = static_cast<int>(code_.instructions.size());
    used_ = 0;
    if (statement.guard >= 0)
      made.guard = places_[static_cast<size_t>(statement.guard)], made.guard_negated = statement.guard_negated;
    Words words = statement.words;
    if (statement.fault.empty()) arrange(made, statement, words);
    if (!statement.fault.empty() || !(made.run = select(words))) {
      if (code_.unknown.empty()) code_.unknown = statement.text;
      made.run = nullptr;
    }
    code_.instructions.push_back(made);
    code_.texts.push_back(statement.text);
  }

  /// The places of operands, and the words by which what runs it is found.
  void arrange(Instruction& made, const Statement& statement, Words& words) {
    const std::vector<Operand>& operands = statement.operands;
    const std::string op = words[0];
    if (is_any(op, {"bra", "brx"})) return arrange_branch(made, operands, words);
    if (is_any(op, {"ld", "ldu", "st", "atom", "red", "ldmatrix"})) return arrange_memory(made, operands, words);
    if (op == "cp") return arrange_copy(made, operands, words);
    if (op == "call") return arrange_call(made, operands, words);
    if (op == "cvta") return arrange_cvta(made, operands, words);
    if (op == "mov" && (has_list(operands, 0) || has_list(operands, 1))) return arrange_parts(made, operands, words);
    if (op == "cvt") {
      const std::string type = words.back();
      const bool packs = has(words, "pack");
      for (size_t at = 0; at < operands.size(); ++at) put(made, operands[at], packs ? 32 : bits_of(type));
      words.push_back(std::to_string(register_bits(operands.at(0), 32)));
      words.push_back(std::to_string(register_bits(operands.at(1), bits_of(type))));
      return;
    }
    if (op == "setp") {
      const bool third = has(words, "and") || has(words, "or") || has(words, "xor");
      const bool pair = operands.size() == (third ? 5u : 4u);
      if (pair) words[0] = "setp2";
      made.offset = third && operands.back().negated;
      for (size_t at = 0; at < operands.size(); ++at) {
        const bool is_number = at >= (pair ? 2u : 1u) && at < (pair ? 4u : 3u);
        put(made, operands[at], is_number ? bits_of(words.back()) : 32);
      }
      return;
    }
    if (op == "vote") made.offset = operands.at(1).negated;
    if (op == "shfl" && operands.size() == 6) words[0] = "shfl2";
    if (is_any(op, {"bar", "barrier"}) && operands.size() > 1) made.count = 1;
    for (size_t at = 0; at < operands.size(); ++at) {
      Operand operand = operands[at];
      if (words.back() == "pred" && operand.kind == Operand::Kind::number) operand.bits = operand.bits ? all_lanes : 0;
      put(made, operand, operand_bits(words, at));
    }
    if (is_any(op, {"shfl", "vote", "match", "redux", "elect"}) || (op == "bar" && has(words, "warp")))
      made.members = made.at[used_ - 1];
  }

  static bool has_list(const std::vector<Operand>& operands, size_t at) {
    return at < operands.size() && operands[at].kind == Operand::Kind::list;
  }

  void arrange_branch(Instruction& made, const std::vector<Operand>& operands, const Words& words) {
    const auto target = [&](const std::string& label) {
      const auto found = function_.labels.find(label);
      if (found == function_.labels.end()) throw std::runtime_error("PTX: there is no label " + label);
      return found->second;
    };
    if (words[0] == "bra") {
      made.target = target(operands.at(0).symbol);
      return;
    }
    put(made, operands.at(0), 32);
    std::vector<int>& table = code_.tables.emplace_back();
    for (const std::string& label : function_.tables.at(operands.at(1).symbol)) table.push_back(target(label));
    made.table = &table;
  }

  static Space space_of(const Words& words) {
    for (const std::string& word : words) {
      if (is_any(word, {"global", "param", "const"})) return Space::global;
      if (is_any(word, {"shared", "shared::cta"})) return Space::shared;
      if (word == "local") return Space::local;
    }
    return Space::generic;
  }

  void arrange_memory(Instruction& made, const std::vector<Operand>& operands, Words& words) {
    made.space = space_of(words);
    if (words[0] == "ldu") words[0] = "ld";
    const bool moves = words[0] == "ld" || words[0] == "st";
    const int bits = bits_of(words.back());
    const Operand* moved = &operands.at(words[0] == "st" ? 1 : 0);
    const int width = register_bits(*moved, bits);
    for (const Operand& operand : operands)
      if (operand.kind == Operand::Kind::address) put_address(made, operand);
      else put(made, operand, moves ? width : words[0] == "ldmatrix" ? 32 : bits);
    made.count = static_cast<uint8_t>(moved->kind == Operand::Kind::list ? moved->list.size() : 1);
    if (moves) words.push_back(std::to_string(width));
  }

  /// The one function that is known takes its arguments where they were stored.
  void arrange_call(Instruction& made, const std::vector<Operand>& operands, Words& words) {
    if (operands.size() != 2 || operands[0].symbol != "cudaGraphSetConditional") words[0] += " of another function";
    else put(made, operands[1], 64);
  }

  void arrange_copy(Instruction& made, const std::vector<Operand>& operands, Words& words) {
    made.space = Space::shared;
    made.offset = -1;
    if (operands.empty()) return;
    if (operands[0].kind == Operand::Kind::number) {
      made.offset = static_cast<int64_t>(operands[0].bits);
      return;
    }
    if (operands.size() < 3 || operands.size() > 4 || operands[1].kind != Operand::Kind::address) {
      words[0] += " of this form";
      return;
    }
    made.offset = 0;
    put_address(made, operands[0]);
    const bool is_16_bit = made.narrow_address;
    const int64_t offset = made.offset;
    put_address(made, operands[1]);
    made.target = static_cast<int>(operands[1].reg >= 0 ? operands[1].bits : 0);
    made.offset = offset, made.narrow_address = is_16_bit;
    made.element_bytes = static_cast<uint8_t>(operands[2].bits);
    put(made, operands.back(), 32);
  }

  /// Generic addresses of shared and local memory lie in windows; others are what they were.
  void arrange_cvta(Instruction& made, const std::vector<Operand>& operands, Words& words) {
    const Space space = space_of(words);
    const int bits = bits_of(words.back());
    put(made, operands.at(0), bits);
    put(made, operands.at(1), bits);
    if (space != Space::shared && space != Space::local) return;
    made.at[used_++] = number(space == Space::shared ? shared_window : local_window, bits);
    words = {words[1] == "to" ? "sub" : "add", words.back()};
  }

  void arrange_parts(Instruction& made, const std::vector<Operand>& operands, Words& words) {
    const bool take = has_list(operands, 0);
    const Operand& list = operands.at(take ? 0 : 1);
    const int whole = bits_of(words.back()), part = whole / static_cast<int>(list.list.size());
    for (const Operand& operand : operands) put(made, operand, operand.kind == Operand::Kind::list ? part : whole);
    words = {take ? "unpack" : "pack", std::to_string(whole), std::to_string(part)};
  }

  const Program& program_;
  const Entry& function_;
  Code code_;
  std::vector<uint32_t> places_;
  std::map<std::string, Symbol> symbols_;
  std::map<std::pair<uint64_t, int>, uint32_t> numbers_;
  int used_ = 0;
};

}  // namespace

Code make_code(const Program& program, const Entry& function, const std::map<std::string, uint64_t>& variables) {
  return Maker(program, function, variables).make();
}

}  // namespace tenon::ptx_emulator

// SPDX-License-Identifier: Apache-2.0
#include "ptx.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <set>
#include <stdexcept>

namespace tenon::ptx_emulator {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_$%.", c); }

/// Words, with their dots and "::", and single signs.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) { advance(); }

  std::string_view word() const { return word_; }
  bool is(std::string_view word) const { return word_ == word; }
  bool at_end() const { return word_.empty(); }
  size_t begin() const { return begin_; }
  size_t last_end() const { return last_end_; }
  std::string_view text() const { return text_; }

  std::string take() {
    std::string word(word_);
    advance();
    return word;
  }
  bool accept(std::string_view word) {
    if (!is(word)) return false;
    advance();
    return true;
  }
  void expect(std::string_view word) {
    if (!accept(word)) fail("expected \"" + std::string(word) + "\"");
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error("PTX: " + why + " at \"" + std::string(text_.substr(begin_, 60)) + "\"");
  }

 private:
  void skip() {
    while (next_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[next_])) || text_[next_] == '\0') ++next_;
      else if (text_.substr(next_, 2) == "//") next_ = std::min(text_.find('\n', next_), text_.size());
      else if (text_.substr(next_, 2) == "/*") next_ = std::min(text_.find("*/", next_) + 2, text_.size());
      else break;
    }
  }
  void advance() {
    last_end_ = next_;
    skip();
    begin_ = next_;
    if (next_ < text_.size() && text_[next_] == '"') {
      next_ = std::min(text_.find('"', next_ + 1), text_.size() - 1) + 1;
    } else {
      while (next_ < text_.size()) {
        if (is_word(text_[next_])) ++next_;
        else if (next_ > begin_ && text_.substr(next_, 2) == "::") next_ += 2;
        else break;
      }
      if (next_ == begin_ && next_ < text_.size()) ++next_;
    }
    word_ = text_.substr(begin_, next_ - begin_);
  }

  std::string_view text_, word_;
  size_t begin_ = 0, next_ = 0, last_end_ = 0;
};

std::vector<std::string> split(const std::string& word) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= word.size();) {
    const size_t end = std::min(word.find('.', begin), word.size());
    parts.push_back(word.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

int bits_of_type(const std::string& type) {
  if (type == ".pred") return 1;
  const size_t digits = type.find_first_of("0123456789");
  return digits == std::string::npos ? 0 : std::atoi(type.c_str() + digits) * (type.ends_with("x2") ? 2 : 1);
}

uint64_t integer(const Tokens& tokens, std::string word) {
  if (!word.empty() && word.back() == 'U') word.pop_back();
  const bool is_hex = word.starts_with("0x") || word.starts_with("0X");
  uint64_t value = 0;
  const char* end = word.data() + word.size();
  const auto [at, fault] = std::from_chars(word.data() + (is_hex ? 2 : 0), end, value, is_hex ? 16 : 10);
  if (fault != std::errc() || at != end) tokens.fail("no number: " + word);
  return value;
}

Operand number(const Tokens& tokens, const std::string& word, bool negative) {
  Operand operand;
  operand.kind = Operand::Kind::number;
  const bool is_bits = word.size() > 2 && word[0] == '0' && std::strchr("fFdD", word[1]);
  if (is_bits) {
    operand.form = word[1] == 'f' || word[1] == 'F' ? 'f' : 'd';
    std::from_chars(word.data() + 2, word.data() + word.size(), operand.bits, 16);
  } else if (word.find('.') != std::string::npos) {
    operand.form = 'd';
    operand.bits = std::bit_cast<uint64_t>(std::strtod(word.c_str(), nullptr) * (negative ? -1 : 1));
  } else {
    operand.bits = integer(tokens, word);
    if (negative) operand.bits = -operand.bits;
  }
  return operand;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(text) {}

  Program program() {
    while (!tokens_.at_end()) top();
    return std::move(program_);
  }

 private:
  void top() {
    if (tokens_.accept(".version") || tokens_.accept(".address_size")) tokens_.take();
    else if (tokens_.accept(".target")) {
      program_.capability = std::atoi(tokens_.take().c_str() + 3);
      while (tokens_.accept(",")) tokens_.take();
    } else if (tokens_.accept(".visible") || tokens_.accept(".weak")) return;
    else if (tokens_.accept(".entry")) entry();
    else if (tokens_.is(".func")) tokens_.fail("functions that are called");
    else if (tokens_.accept(".extern")) declared_elsewhere();
    else program_.variables.push_back(variable(";"));
  }

  void declared_elsewhere() {
    if (tokens_.is(".func")) return skip_statement();
    program_.variables.push_back(variable(";"));
    program_.variables.back().is_dynamic = true;
  }

  void entry() {
    Entry function;
    function.name = tokens_.take();
    function_ = &function;
    scopes_.assign(1, {});
    if (tokens_.accept("(")) {
      while (!tokens_.is(")")) {
        function.parameters.push_back(variable(",)"));
        tokens_.accept(",");
      }
      tokens_.expect(")");
    }
    while (!tokens_.is("{")) directive();
    block();
    program_.entries.emplace(function.name, std::move(function));
  }

  void directive() {
    const std::string name = tokens_.take();
    if (name != ".maxntid" && name != ".reqntid") return;
    int threads = std::atoi(tokens_.take().c_str());
    while (tokens_.accept(",")) threads *= std::atoi(tokens_.take().c_str());
    function_->most_threads = threads;
  }

  /// Up to one of these signs, which is taken where it is ';'.
  Variable variable(std::string_view ends) {
    Variable made;
    size_t count = 1, size = 0;
    while (!tokens_.is("[") && !tokens_.is("=") && ends.find(tokens_.word()) == std::string_view::npos) {
      const std::string word = tokens_.take();
      if (tokens_.at_end()) tokens_.fail("a declaration without an end");
      if (word == ".align") made.align = integer(tokens_, tokens_.take());
      else if (word == ".extern") made.is_dynamic = true;
      else if (word == ".ptr" || word == ".volatile" || word == ".visible" || word == ".weak") continue;
      else if (word[0] == '.' && word.find_first_of("0123456789") != std::string::npos)
        size = static_cast<size_t>(bits_of_type(word)) / 8;
      else if (word[0] == '.') made.space = made.space.empty() ? word.substr(1) : made.space;
      else made.name = word;
    }
    while (tokens_.accept("[")) {
      count *= tokens_.is("]") ? 0 : integer(tokens_, tokens_.take());
      tokens_.expect("]");
    }
    made.bytes = size * count;
    made.align = std::max(made.align, size);
    if (tokens_.accept("=")) values(made, size);
    made.values.resize(made.bytes);
    if (ends == ";") tokens_.expect(";");
    return made;
  }

  Operand signed_number() {
    const bool negative = tokens_.accept("-");
    return number(tokens_, tokens_.take(), negative);
  }

  /// generic(NAME): no memory lies there, so that a kernel which follows it is at fault.
  Operand address_of_variable() {
    tokens_.expect("(");
    tokens_.take();
    tokens_.expect(")");
    return number(tokens_, "0xdead0000", false);
  }

  void values(Variable& made, size_t size) {
    const bool is_list = tokens_.accept("{");
    do {
      const Operand one = tokens_.accept("generic") ? address_of_variable() : signed_number();
      const auto* bytes = reinterpret_cast<const char*>(&one.bits);
      made.values.insert(made.values.end(), bytes, bytes + size);
    } while (tokens_.accept(","));
    if (is_list) tokens_.expect("}");
  }

  void block() {
    tokens_.expect("{");
    scopes_.emplace_back();
    while (!tokens_.is("}")) {
      if (tokens_.at_end()) tokens_.fail("a body without an end");
      if (tokens_.is("{")) block();
      else if (tokens_.is(".reg")) registers();
      else if (tokens_.is(".pragma") || tokens_.is(".loc")) skip_statement();
      else if (tokens_.word()[0] == '.') function_->variables.push_back(variable(";"));
      else statement();
    }
    tokens_.expect("}");
    scopes_.pop_back();
  }

  void skip_statement() {
    while (!tokens_.at_end() && !tokens_.accept(";")) tokens_.take();
  }

  void registers() {
    tokens_.expect(".reg");
    int bits = 0;
    while (tokens_.word()[0] == '.') bits = std::max(bits, bits_of_type(tokens_.take()));
    do {
      const std::string name = tokens_.take();
      if (tokens_.accept("<")) {
        const uint64_t count = integer(tokens_, tokens_.take());
        for (uint64_t at = 0; at < count; ++at) add_register(name + std::to_string(at), bits);
        tokens_.expect(">");
      } else {
        add_register(name, bits);
      }
    } while (tokens_.accept(","));
    tokens_.expect(";");
  }

  void add_register(const std::string& name, int bits) {
    scopes_.back()[name] = static_cast<int>(function_->registers.size());
    function_->registers.push_back({bits});
  }

  int find_register(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return found->second;
    return -1;
  }

  void statement() {
    const size_t begin = tokens_.begin();
    Statement made;
    if (tokens_.accept("@")) {
      made.guard_negated = tokens_.accept("!");
      made.guard = find_register(tokens_.take());
    }
    const std::string opcode = tokens_.take();
    if (made.guard < 0 && tokens_.accept(":")) {
      label(opcode);
      return;
    }
    made.words = split(opcode);
    while (!tokens_.is(";")) {
      if (tokens_.at_end()) tokens_.fail("a statement without an end");
      if (tokens_.is("(") && made.words[0] != "call") made.fault = opcode;
      if (!made.fault.empty()) tokens_.take();
      else {
        made.operands.push_back(operand(made));
        if (tokens_.accept("|")) made.operands.push_back(operand(made));
        tokens_.accept(",");
      }
    }
    tokens_.expect(";");
    const std::string_view text = tokens_.text().substr(begin, tokens_.last_end() - begin);
    for (const char c : text)
      if (!std::isspace(static_cast<unsigned char>(c))) made.text += c;
      else if (!made.text.empty() && made.text.back() != ' ') made.text += ' ';
    function_->body.push_back(std::move(made));
  }

  void label(const std::string& name) {
    if (tokens_.accept(".branchtargets")) {
      do function_->tables[name].push_back(tokens_.take());
      while (tokens_.accept(","));
      tokens_.expect(";");
    } else {
      function_->labels[name] = static_cast<int>(function_->body.size());
    }
  }

  Operand operand(Statement& of) {
    Operand made;
    if (tokens_.accept("[")) {
      made = operand(of);
      made.kind = Operand::Kind::address;
      if (!tokens_.accept("]")) {
        of.fault = "an address of several parts";
        while (!tokens_.at_end() && !tokens_.accept("]")) tokens_.take();
      }
      return made;
    }
    if (tokens_.is("{") || tokens_.is("(")) {
      made.kind = Operand::Kind::list;
      const char* end = tokens_.take() == "{" ? "}" : ")";
      while (!tokens_.accept(end)) {
        if (tokens_.at_end()) tokens_.fail("a list without an end");
        made.list.push_back(operand(of));
        tokens_.accept(",");
      }
      return made;
    }
    made.negated = tokens_.accept("!");
    const bool negative = tokens_.accept("-");
    const std::string word = tokens_.take();
    if (word.empty()) tokens_.fail("no operand");
    if (std::isdigit(static_cast<unsigned char>(word[0]))) return number(tokens_, word, negative);
    made.reg = find_register(word);
    made.kind = made.reg >= 0 ? Operand::Kind::reg : Operand::Kind::symbol;
    if (made.reg < 0) made.symbol = word;
    while (tokens_.is("+") || tokens_.is("-")) {
      bool minus = tokens_.take() == "-";
      if (tokens_.accept("-")) minus = !minus;
      const uint64_t value = integer(tokens_, tokens_.take());
      made.bits += minus ? -value : value;
    }
    return made;
  }

  Tokens tokens_;
  Program program_;
  Entry* function_ = nullptr;
  std::vector<std::map<std::string, int>> scopes_;
};

}  // namespace

Program parse_ptx(std::string_view text) { return Parser(text).program(); }

}  // namespace tenon::ptx_emulator

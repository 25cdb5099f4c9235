// SPDX-License-Identifier: Apache-2.0
#include "ir/dim.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"
#include "base/hash.h"
#include "ir/limits.h"

namespace tenon::ir {
namespace {

std::vector<std::string> atoms_of(const std::string& monomial) {
  std::vector<std::string> atoms;
  std::string atom;
  int depth = 0;
  for (char c : monomial) {
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c == '*' && depth == 0) {
      atoms.push_back(atom);
      atom.clear();
    } else {
      atom += c;
    }
  }
  if (!atom.empty()) atoms.push_back(atom);
  return atoms;
}

std::string joined(std::vector<std::string> atoms) {
  std::sort(atoms.begin(), atoms.end());
  std::string text;
  for (const std::string& atom : atoms) text += (text.empty() ? "" : "*") + atom;
  return text;
}

void add_to(std::map<std::string, int64_t>& terms, const std::string& monomial, int64_t coefficient) {
  int64_t& slot = terms[monomial];
  slot = checked_add(slot, coefficient, "dimension");
  if (slot == 0) terms.erase(monomial);
}

using Terms = std::map<std::string, int64_t>;

/// The term of most atoms; of several that whose atoms come first in the alphabet.
const Terms::value_type& leading(const Terms& terms) {
  const auto is_less = [](const Terms::value_type& a, const Terms::value_type& b) {
    const std::vector<std::string> left = atoms_of(a.first), right = atoms_of(b.first);
    return left.size() != right.size() ? left.size() < right.size() : right < left;
  };
  return *std::max_element(terms.begin(), terms.end(), is_less);
}

/// Atoms that are left when others are taken; nullopt where one of these is missing.
std::optional<std::vector<std::string>> without(std::vector<std::string> atoms, const std::vector<std::string>& taken) {
  for (const std::string& atom : taken) {
    const auto found = std::find(atoms.begin(), atoms.end(), atom);
    if (found == atoms.end()) return std::nullopt;
    atoms.erase(found);
  }
  return atoms;
}

int64_t floor_quotient(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

struct DimParser {
  std::string_view text;
  size_t at = 0;
  int depth = 0;

  bool take(std::string_view word) {
    if (text.substr(at, word.size()) != word) return false;
    at += word.size();
    return true;
  }
  std::optional<int64_t> integer() {
    size_t end = at;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (end == at || end - at > 18) return std::nullopt;
    const int64_t value = std::stoll(std::string(text.substr(at, end - at)));
    at = end;
    return value;
  }
  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '?';
  }
  std::optional<Dim> factor() {
    if (at >= text.size()) return std::nullopt;
    if (text[at] >= '0' && text[at] <= '9') {
      const auto value = integer();
      return value ? std::optional<Dim>(Dim(*value)) : std::nullopt;
    }
    if (take("(")) {
      if (++depth > 32) return std::nullopt;
      const auto inner = sum();
      if (!inner || !take(")//")) return std::nullopt;
      --depth;
      const auto divisor = integer();
      if (!divisor || *divisor == 0) return std::nullopt;
      return inner->floor_div(*divisor);
    }
    size_t end = at;
    while (end < text.size() && is_name(text[end])) ++end;
    if (end == at) return std::nullopt;
    const std::string symbol(text.substr(at, end - at));
    at = end;
    return Dim::symbol(symbol);
  }
  std::optional<Dim> term() {
    auto result = factor();
    while (result && take("*")) {
      const auto next = factor();
      if (!next) return std::nullopt;
      result = *result * *next;
    }
    return result;
  }
  std::optional<Dim> sum() {
    const bool negative = take("-");
    auto result = term();
    if (!result) return std::nullopt;
    if (negative) result = Dim(0) - *result;
    while (at < text.size() && (text[at] == '+' || text[at] == '-')) {
      const bool minus = text[at++] == '-';
      const auto next = term();
      if (!next) return std::nullopt;
      result = minus ? *result - *next : *result + *next;
    }
    return result;
  }
};

}  // namespace

Dim Dim::symbol(const std::string& name) {
  std::string clean;
  for (char c : name) clean += DimParser::is_name(c) ? c : '_';
  if (clean.empty() || (clean[0] >= '0' && clean[0] <= '9')) clean = "_" + clean;
  if (clean.size() > max_symbol) {
    char digits[16];
    uint64_t hash = hash64(std::as_bytes(std::span(clean)));
    for (char& digit : digits) digit = "0123456789abcdef"[hash & 15], hash >>= 4;
    clean = clean.substr(0, max_symbol - sizeof digits) + std::string(digits, sizeof digits);
  }
  Dim dim;
  dim.terms_[clean] = 1;
  return dim;
}

std::optional<Dim> Dim::parse(std::string_view text) {
  DimParser parser{text};
  auto result = parser.sum();
  if (!result || parser.at != text.size()) return std::nullopt;
  return result;
}

int64_t Dim::value() const {
  TENON_CHECK(is_constant(), str());
  return terms_.empty() ? 0 : terms_.begin()->second;
}

std::string Dim::str() const {
  if (terms_.empty()) return "0";
  std::string text;
  int64_t constant = 0;
  for (const auto& [monomial, coefficient] : terms_) {
    if (monomial.empty()) {
      constant = coefficient;
      continue;
    }
    if (coefficient < 0) text += "-";
    else if (!text.empty()) text += "+";
    const int64_t size = coefficient < 0 ? -coefficient : coefficient;
    if (size != 1) text += std::to_string(size) + "*";
    text += monomial;
  }
  if (constant > 0 && !text.empty()) text += "+";
  if (constant != 0) text += std::to_string(constant);
  return text;
}

Dim Dim::operator+(const Dim& other) const {
  Dim result = *this;
  for (const auto& [monomial, coefficient] : other.terms_) add_to(result.terms_, monomial, coefficient);
  return result;
}

Dim Dim::operator-(const Dim& other) const {
  Dim result = *this;
  for (const auto& [monomial, coefficient] : other.terms_)
    add_to(result.terms_, monomial, checked_mul(coefficient, -1));
  return result;
}

Dim Dim::operator*(const Dim& other) const {
  Dim result;
  for (const auto& [left, left_factor] : terms_)
    for (const auto& [right, right_factor] : other.terms_) {
      std::vector<std::string> atoms = atoms_of(left);
      for (const std::string& atom : atoms_of(right)) atoms.push_back(atom);
      add_to(result.terms_, joined(atoms), checked_mul(left_factor, right_factor, "dimension"));
    }
  // A product of sums grows with every factor; nothing sensible has more terms.
  if (result.terms_.size() > 256) throw Error(Code::resource, "a symbolic size has more than 256 terms");
  return result;
}

std::optional<Dim> Dim::without_inner_floor(const Dim& dividend, int64_t divisor) {
  for (const auto& [monomial, coefficient] : dividend.terms_) {
    const size_t end = monomial.rfind(")//");
    if (coefficient != 1 || atoms_of(monomial).size() != 1 || end == std::string::npos) continue;
    const auto inner = parse(std::string_view(monomial).substr(1, end - 1));
    const int64_t inner_divisor = std::stoll(monomial.substr(end + 3));
    int64_t both;
    if (!inner || inner_divisor < 1 || divisor < 1 || __builtin_mul_overflow(inner_divisor, divisor, &both)) continue;
    Dim rest = dividend;
    rest.terms_.erase(monomial);
    return (*inner + rest * inner_divisor).floor_div(both);
  }
  return std::nullopt;
}

Dim Dim::floor_div(int64_t divisor) const {
  TENON_CHECK(divisor != 0, "division of a dimension by zero");
  if (is_constant()) return Dim(floor_quotient(value(), divisor));
  if (divisor == 1) return *this;
  if (const auto exact = exact_div(Dim(divisor))) return *exact;
  // Terms whose coefficient divides leave the floor, so (2*N+1)//2 is N.
  Dim outside, inside;
  for (const auto& [monomial, coefficient] : terms_) {
    const int64_t quotient = floor_quotient(coefficient, divisor);
    if (monomial.empty()) {
      add_to(outside.terms_, monomial, quotient);
      add_to(inside.terms_, monomial, coefficient - quotient * divisor);
    } else if (coefficient % divisor == 0) {
      add_to(outside.terms_, monomial, quotient);
    } else {
      add_to(inside.terms_, monomial, coefficient);
    }
  }
  if (inside.is_constant()) return outside + Dim(floor_quotient(inside.value(), divisor));
  if (const auto flat = without_inner_floor(inside, divisor)) return outside + *flat;
  Dim atom;
  atom.terms_["(" + inside.str() + ")//" + std::to_string(divisor)] = 1;
  return outside + atom;
}

std::optional<Dim> Dim::exact_div(const Dim& other) const {
  // Division of polynomials in several variables: the largest terms in an order that products keep decide.
  constexpr int most_steps = 256;
  if (other.terms_.empty()) return std::nullopt;
  const auto& [divisor_monomial, divisor] = leading(other.terms_);
  Dim result, rest = *this;
  for (int step = 0; !rest.terms_.empty(); ++step) {
    const auto& [monomial, coefficient] = leading(rest.terms_);
    const auto atoms = without(atoms_of(monomial), atoms_of(divisor_monomial));
    if (step == most_steps || !atoms || coefficient % divisor != 0) return std::nullopt;
    Dim term;
    add_to(term.terms_, joined(*atoms), coefficient / divisor);
    result = result + term, rest = rest - term * other;
  }
  return result;
}

std::string str(const Shape& shape) {
  std::string text = "[";
  for (size_t at = 0; at < shape.size(); ++at) text += (at ? "," : "") + shape[at].str();
  return text + "]";
}

Dim product(const Shape& shape) {
  Dim result(1);
  for (const Dim& dim : shape) result = result * dim;
  return result;
}

}  // namespace tenon::ir

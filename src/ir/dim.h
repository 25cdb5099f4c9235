// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::ir {

/// One size of a shape: an integer or a polynomial over named symbols ("N", "H"), with floor division by a constant as
/// an atom. Kept in normal form, so equal expressions compare equal. Text form: "2*N+1", "(H+1)//2".
class Dim {
 public:
  Dim(int64_t value = 0) { if (value) terms_[""] = value; }
  static Dim symbol(const std::string& name);
  /// Reads the text form; nullopt when it is not one.
  static std::optional<Dim> parse(std::string_view text);

  bool is_constant() const { return terms_.empty() || (terms_.size() == 1 && terms_.begin()->first.empty()); }
  /// The integer; asserts is_constant().
  int64_t value() const;
  std::string str() const;

  Dim operator+(const Dim& other) const;
  Dim operator-(const Dim& other) const;
  Dim operator*(const Dim& other) const;
  bool operator==(const Dim& other) const { return terms_ == other.terms_; }
  /// floor(this / divisor); divisor must not be 0.
  Dim floor_div(int64_t divisor) const;
  Dim ceil_div(int64_t divisor) const { return (*this + (divisor - 1)).floor_div(divisor); }
  /// this / other where that leaves no remainder in the polynomials; nullopt otherwise.
  std::optional<Dim> exact_div(const Dim& other) const;

 private:
  /// floor((floor(x / a) + y) / b) as floor((x + a * y) / (a * b)), which holds as y is an integer; nullopt without
  /// such a floor.
  static std::optional<Dim> without_inner_floor(const Dim& dividend, int64_t divisor);
  std::map<std::string, int64_t> terms_;  // product of atoms, joined by '*' in order -> coefficient; "" is the constant
};

using Shape = std::vector<Dim>;
std::string str(const Shape& shape);
Dim product(const Shape& shape);
inline bool is_constant(const Shape& shape) {
  for (const Dim& dim : shape)
    if (!dim.is_constant()) return false;
  return true;
}

}  // namespace tenon::ir

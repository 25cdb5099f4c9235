// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace tenon::ir {

/// What an operation is: a name in a domain. "" is ONNX's own domain; "tenon" holds the ops that passes make, which no
/// model can name; others are as models have them. It is kept in its one text form, "Conv", "tenon:MaxPools",
/// "com.microsoft:QGemm", and compares with that: what equals "Conv" is ONNX's Conv and nothing else.
class OpId {
 public:
  static constexpr std::string_view internal_domain = "tenon";

  OpId() = default;
  /// Reads the text form.
  OpId(std::string text) : text_(std::move(text)) {}
  OpId(const char* text) : text_(text) {}
  /// Neither may hold a ':'.
  OpId(std::string_view domain, std::string_view name);

  std::string_view domain() const;
  std::string_view name() const;
  bool empty() const { return text_.empty(); }
  bool is_internal() const { return domain() == internal_domain; }
  const std::string& str() const { return text_; }
  operator const std::string&() const { return text_; }

  friend bool operator==(const OpId& a, const OpId& b) { return a.text_ == b.text_; }
  friend bool operator==(const OpId& a, const char* b) { return a.text_ == b; }
  friend bool operator==(const OpId& a, const std::string& b) { return a.text_ == b; }
  friend bool operator<(const OpId& a, const OpId& b) { return a.text_ < b.text_; }
  friend std::string operator+(const std::string& a, const OpId& b) { return a + b.text_; }
  friend std::string operator+(const OpId& a, const std::string& b) { return a.text_ + b; }

 private:
  std::string text_;
};

}  // namespace tenon::ir

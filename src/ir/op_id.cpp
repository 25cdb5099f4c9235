// SPDX-License-Identifier: Apache-2.0
#include "ir/op_id.h"

#include "base/check.h"

namespace tenon::ir {

OpId::OpId(std::string_view domain, std::string_view name) {
  TENON_CHECK(domain.find(':') == std::string_view::npos && name.find(':') == std::string_view::npos,
              std::string(domain) + ", " + std::string(name));
  if (!domain.empty()) text_ = std::string(domain) + ":";
  text_ += name;
}

std::string_view OpId::domain() const {
  const size_t colon = text_.find(':');
  return colon == std::string::npos ? std::string_view() : std::string_view(text_).substr(0, colon);
}

std::string_view OpId::name() const {
  const size_t colon = text_.find(':');
  return colon == std::string::npos ? std::string_view(text_) : std::string_view(text_).substr(colon + 1);
}

}  // namespace tenon::ir

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/export.h>

#include <stdexcept>
#include <string>

namespace tenon {

/// Why an operation could not be done; the value is the command's exit status.
enum class Code {
  internal = 1,
  usage = 2,
  invalid_model = 3,
  unsupported = 4,
  bad_engine = 5,
  gate_failed = 6,
  resource = 7,
  io = 8,
};

/// The stable name of a code, as printed in JSON ("invalid_model").
TENON_API const char* name(Code code);

/// A fault on the user's side: a file, a flag or a value that cannot be used.
/// `what` says what is wrong, `where` names file, node, tensor or byte, `why` the cause, `hint` what to do, `node` is
/// the name of the ONNX node at fault. Only `what` is always there.
class TENON_API Error : public std::runtime_error {
 public:
  struct Detail {
    std::string where, why, hint, node;
  };
  Error(Code code, const std::string& what, Detail detail = {})
      : std::runtime_error(what), code_(code), detail_(std::move(detail)) {}
  Code code() const { return code_; }
  const std::string& where() const { return detail_.where; }
  const std::string& why() const { return detail_.why; }
  const std::string& hint() const { return detail_.hint; }
  const std::string& node() const { return detail_.node; }
  /// Several lines, ready for a terminal: "error: …", then where, why and hint where known.
  std::string text() const;

 private:
  Code code_;
  Detail detail_;
};

}  // namespace tenon

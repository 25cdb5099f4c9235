// SPDX-License-Identifier: Apache-2.0
#include "cli/report.h"

#include <tenon/error.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "cli/print.h"

namespace tenon::cli {

void write_json(const std::string& path, const nlohmann::ordered_json& json) {
  const std::string text = json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  write_bytes(path, std::as_bytes(std::span(text)));
}

void write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  if (path != "-") return write_atomically(path, bytes);
  write_out({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!flush_out()) throw Error(Code::io, "cannot write to the standard output", {.why = std::strerror(errno)});
}

}  // namespace tenon::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/report.h"

#include <fmt/format.h>
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

std::string bytes_text(int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  if (bytes < 1000000) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (bytes < 1000000000) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.2f} GB", bytes / 1e9);
}

nlohmann::ordered_json device_memory(const MemoryUse& memory) {
  return {{"input_bytes", memory.input_bytes},
          {"workspace_bytes", memory.workspace_bytes},
          {"device_bytes", memory.device_bytes}};
}

std::string device_memory_text(const MemoryUse& memory) {
  return fmt::format("inputs {}, workspace {}: {} on the GPU", bytes_text(memory.input_bytes),
                     bytes_text(memory.workspace_bytes), bytes_text(memory.device_bytes));
}

}  // namespace tenon::cli

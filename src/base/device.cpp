// SPDX-License-Identifier: Apache-2.0
#include <tenon/device.h>
#include <tenon/error.h>

#include <array>
#include <charconv>
#include <utility>

namespace tenon {
namespace {

constexpr std::array<std::pair<std::string_view, Precision>, 7> precisions = {{{"fp32", Precision::fp32},
                                                                                {"tf32", Precision::tf32},
                                                                                {"fp16", Precision::fp16},
                                                                                {"bf16", Precision::bf16},
                                                                                {"int8", Precision::int8},
                                                                                {"fp8", Precision::fp8},
                                                                                {"best", Precision::best}}};

}  // namespace

Device::Device(std::string_view text) {
  const size_t colon = text.find(':');
  backend = std::string(text.substr(0, colon));
  bool fits = !backend.empty();
  for (const char c : backend) fits = fits && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_');
  if (colon != std::string_view::npos) {
    const std::string_view number = text.substr(colon + 1);
    const auto [end, fault] = std::from_chars(number.data(), number.data() + number.size(), index);
    fits = fits && fault == std::errc() && end == number.data() + number.size() && index >= 0;
  }
  if (!fits)
    throw Error(Code::usage, "no device is called \"" + std::string(text) + "\"",
                {.where = "--device", .hint = "give cpu, cuda or cuda:N"});
}

std::string Device::str() const { return index == 0 ? backend : backend + ":" + std::to_string(index); }

std::string_view name(Precision precision) {
  for (const auto& [name, value] : precisions)
    if (value == precision) return name;
  return {};
}

std::optional<Precision> precision_named(std::string_view name) {
  for (const auto& [known, value] : precisions)
    if (known == name) return value;
  return std::nullopt;
}

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
#include "backends/backend.h"

#include <tenon/error.h>

#include <algorithm>

namespace tenon::backends {
namespace {

struct Registered {
  const Backend* backend;
  std::string name;
  int priority;
};

std::vector<Registered>& registered_backends() {
  static std::vector<Registered> list;
  return list;
}

[[noreturn]] void no_kernels(const Backend& backend) {
  throw Error(Code::unsupported, "backend " + backend.name() + " has no compiled kernels to carry",
              {.hint = "its kernels are part of the program"});
}

}  // namespace

bool Backend::has(const Device& device) const {
  try {
    require(device);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::unique_ptr<Meter> Backend::meter(const Device&) const { return nullptr; }
KernelCount Backend::export_kernels(const std::string&) const { no_kernels(*this); }
KernelCount Backend::import_kernels(const std::string&) const { no_kernels(*this); }

BackendRegistrar::BackendRegistrar(const Backend& backend, int priority) {
  std::vector<Registered>& list = registered_backends();
  list.push_back({&backend, backend.name(), priority});
  std::stable_sort(list.begin(), list.end(),
                   [](const Registered& a, const Registered& b) { return a.priority > b.priority; });
}

std::vector<const Backend*> backends() {
  std::vector<const Backend*> all;
  for (const Registered& one : registered_backends()) all.push_back(one.backend);
  return all;
}

const Backend& backend(const std::string& name) {
  for (const Registered& one : registered_backends())
    if (one.name == name) return *one.backend;
  std::string known;
  for (const Registered& one : registered_backends()) known += (known.empty() ? "" : ", ") + one.name;
  throw Error(Code::usage, "no device is called \"" + name + "\"",
              {.where = "--device", .hint = "give " + known + " or " + registered_backends().back().name + ":N"});
}

}  // namespace tenon::backends

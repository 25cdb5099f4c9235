// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <tenon/error.h>
#include <tenon/plugin.h>

#include <cstdlib>
#include <memory>
#include <set>

#include "backends/backend.h"
#include "ops/custom_op.h"

namespace tenon {
namespace {

/// What the plugin's calls threw, which must not pass through its frames.
thread_local std::string fault;

int add(const tenon_plugin_host*, const tenon_custom_op* op) {
  try {
    ops::add_custom_op(*op);
    for (const backends::Backend* backend : backends::backends())
      backend->add_custom_op(*ops::custom_op(ops::id_of(*op)));
    return 0;
  } catch (const Error& error) {
    fault = error.what() + std::string(", ") + error.why();
  } catch (const std::exception& error) {
    fault = error.what();
  }
  return 1;
}

constexpr tenon_plugin_host host = {sizeof(tenon_plugin_host), TENON_PLUGIN_VERSION, add};

}  // namespace

void load_plugin(const std::string& path) {
  static std::set<std::string> loaded;
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  if (!real) throw Error(Code::io, "cannot open the plugin", {.where = path, .why = "there is no such file"});
  if (loaded.count(real.get())) return;
  void* library = ::dlopen(real.get(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Error(Code::io, "cannot load the plugin", {.where = path, .why = ::dlerror()});
  const auto begin = reinterpret_cast<int (*)(const tenon_plugin_host*)>(::dlsym(library, "tenon_plugin"));
  if (!begin) {
    ::dlclose(library);
    throw Error(Code::unsupported, "the file is no plugin",
                {.where = path, .why = "it has no function tenon_plugin", .hint = "see <tenon/custom_op.h>"});
  }
  fault.clear();
  // Once its ops may be known it stays, for good.
  if (const int result = begin(&host))
    throw Error(Code::unsupported, "the plugin cannot be used",
                {.where = path, .why = fault.empty() ? "it returned " + std::to_string(result) : fault});
  loaded.insert(real.get());
}

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/compiler.h"

#include <tenon/error.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>

#include "backends/cuda/runtime/kernel_cache.h"
#include "backends/cuda/runtime/texts.h"
#include "ops/expression_id.h"

namespace tenon::cuda {
namespace {

using Program = struct ProgramTag*;

struct Nvrtc : Compiler {
  int (*Version)(int*, int*);
  int (*CreateProgram)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*CompileProgram)(Program, int, const char* const*);
  int (*GetProgramLogSize)(Program, size_t*);
  int (*GetProgramLog)(Program, char*);
  int (*GetCUBINSize)(Program, size_t*);
  int (*GetCUBIN)(Program, char*);
  int (*GetPTXSize)(Program, size_t*);
  int (*GetPTX)(Program, char*);
  int (*GetNumSupportedArchs)(int*);
  int (*GetSupportedArchs)(int*);
  int (*DestroyProgram)(Program*);
};

const Nvrtc& nvrtc() {
  static const Nvrtc opened = [] {
    Nvrtc n{};
    n.library = open_library({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
    if (!n.library) {
      n.why = n.library.why;
      return n;
    }
    const auto bind = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(n.library.find(symbol));
      if (!function && n.why.empty()) n.why = "it is too old: it has no " + std::string(symbol);
    };
    bind(n.Version, "nvrtcVersion");
    bind(n.CreateProgram, "nvrtcCreateProgram");
    bind(n.CompileProgram, "nvrtcCompileProgram");
    bind(n.GetProgramLogSize, "nvrtcGetProgramLogSize");
    bind(n.GetProgramLog, "nvrtcGetProgramLog");
    bind(n.GetCUBINSize, "nvrtcGetCUBINSize");
    bind(n.GetCUBIN, "nvrtcGetCUBIN");
    bind(n.GetPTXSize, "nvrtcGetPTXSize");
    bind(n.GetPTX, "nvrtcGetPTX");
    bind(n.GetNumSupportedArchs, "nvrtcGetNumSupportedArchs");
    bind(n.GetSupportedArchs, "nvrtcGetSupportedArchs");
    bind(n.DestroyProgram, "nvrtcDestroyProgram");
    if (!n.why.empty()) return n;
    n.Version(&n.major, &n.minor);
    int count = 0;
    n.GetNumSupportedArchs(&count);
    n.capabilities.resize(static_cast<size_t>(count));
    n.GetSupportedArchs(n.capabilities.data());
    return n;
  }();
  return opened;
}

std::string name_and_defines(const Source& source) {
  std::string text = source.file;
  for (const std::string& define : source.defines) text += " -D" + define;
  return text;
}

/// The texts of the expressions that a kernel names, as tenon::expr::Mish, and of what they need.
std::string expressions_of(const std::string& kernel) {
  static const std::pair<const char*, const char*> files[] = {
#define TENON_FILE(name, file) {"tenon::expr::" #name, file ".h"},
      TENON_EXPRESSIONS(TENON_FILE)
#undef TENON_FILE
  };
  if (kernel.find("tenon::expr::") == std::string::npos) return "";
  std::string text(kernel_text("expression_math.h"));
  for (const auto& [name, file] : files) {
    const size_t size = std::string_view(name).size();
    for (size_t at = kernel.find(name); at != std::string::npos; at = kernel.find(name, at + size)) {
      if (at + size < kernel.size() && std::isalnum(static_cast<unsigned char>(kernel[at + size]))) continue;
      text += kernel_text(file);
      break;
    }
  }
  text += kernel_text("expressions.cuh");
  if (kernel.find("Exact") != std::string::npos) text += kernel_text("exact.cuh");
  return text;
}

/// The files of kernels/ that a text includes, and those that they include, each once.
std::vector<const KernelText*> headers_of(std::string_view text) {
  static constexpr std::string_view directive = "#include \"";
  std::vector<const KernelText*> found;
  const auto add_from = [&](std::string_view from) {
    for (size_t at = 0; (at = from.find(directive, at)) != from.npos;) {
      at += directive.size();
      const std::string_view name = from.substr(at, from.find('"', at) - at);
      const auto header = std::find_if(kernel_texts.begin(), kernel_texts.end(),
                                       [&](const KernelText& entry) { return name == entry.name; });
      if (header != kernel_texts.end() && std::find(found.begin(), found.end(), &*header) == found.end())
        found.push_back(&*header);
    }
  };
  add_from(text);
  for (size_t at = 0; at < found.size(); ++at) add_from(found[at]->text);
  return found;
}

std::string compile_now(const Source& source, const std::string& text, const std::string& architecture) {
  const Nvrtc& n = nvrtc();
  if (!n.why.empty())
    throw Error(Code::unsupported, "GPU kernels cannot be compiled",
                {.where = source.file,
                 .why = n.why,
                 .hint = "install NVRTC: the package cuda-nvrtc, or pip install nvidia-cuda-nvrtc"});
  std::vector<std::string> options = {"--gpu-architecture=" + architecture, "-std=c++17", "-default-device"};
  for (const std::string& define : source.defines) options.push_back("-D" + define);
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  std::vector<std::string> headers;
  std::vector<const char*> names, contents;
  for (const KernelText* header : headers_of(text)) headers.emplace_back(header->text), names.push_back(header->name);
  for (const std::string& header : headers) contents.push_back(header.c_str());
  Program program = nullptr;
  n.CreateProgram(&program, text.c_str(), source.file.c_str(), static_cast<int>(headers.size()), contents.data(),
                  names.data());
  const int result = n.CompileProgram(program, static_cast<int>(words.size()), words.data());
  std::string output;
  size_t size = 0;
  if (result != 0) {
    n.GetProgramLogSize(program, &size);
    output.resize(size);
    n.GetProgramLog(program, output.data());
    n.DestroyProgram(&program);
    throw Error(Code::unsupported, "a GPU kernel does not compile",
                {.where = name_and_defines(source) + " for " + architecture,
                 .why = output.substr(0, 2000),
                 .hint = "NVRTC " + std::to_string(n.major) + "." + std::to_string(n.minor) + " of " + n.library.path});
  }
  const bool is_ptx = architecture.rfind("compute_", 0) == 0;
  (is_ptx ? n.GetPTXSize : n.GetCUBINSize)(program, &size);
  output.resize(size);
  (is_ptx ? n.GetPTX : n.GetCUBIN)(program, output.data());
  n.DestroyProgram(&program);
  return output;
}

/// nullptr where this user has none.
const OpenFolder* cache() {
  static const std::unique_ptr<const OpenFolder> opened = []() -> std::unique_ptr<const OpenFolder> {
    try {
      return std::make_unique<OpenFolder>(kernel_folder());
    } catch (const Error&) {
      return nullptr;
    }
  }();
  return opened.get();
}

/// What NVRTC is given; headers come besides.
std::string text_of(const Source& source) {
  const std::string own(source.text.empty() ? kernel_text(source.file) : std::string_view(source.text));
  return std::string(kernel_text("common.cuh")) + expressions_of(own + name_and_defines(source)) + own;
}

}  // namespace

const Compiler& compiler() { return nvrtc(); }

std::string architecture_for(int capability, const Compiler& by) {
  const std::vector<int>& known = by.capabilities;
  const auto later = std::upper_bound(known.begin(), known.end(), capability);
  if (known.empty() || (later != known.begin() && later[-1] == capability))
    return "sm_" + std::to_string(capability) + (capability == 90 ? "a" : "");
  if (later != known.begin()) return "compute_" + std::to_string(later[-1]);
  const auto text = [](int one) { return std::to_string(one / 10) + "." + std::to_string(one % 10); };
  throw Error(Code::unsupported, "GPU kernels cannot be compiled",
              {.where = by.library.path,
               .why = "NVRTC " + std::to_string(by.major) + "." + std::to_string(by.minor) +
                      " compiles for compute capability " + text(known.front()) + " and later, the GPU's is " +
                      text(capability),
               .hint = "install an earlier NVRTC: pip install nvidia-cuda-nvrtc with a version"});
}

std::string_view kernel_text(const std::string& file) {
  for (const KernelText& entry : kernel_texts)
    if (file == entry.name) return entry.text;
  return {};
}

Source source_from(const std::vector<std::string>& files, std::vector<std::string> defines) {
  Source source{files.back(), std::move(defines), ""};
  for (const std::string& file : files) source.text += kernel_text(file);
  return source;
}

std::string text_with_headers(const Source& source) {
  std::string text = text_of(source);
  for (const KernelText* header : headers_of(text)) text += header->text;
  return text;
}

std::string compile(const Source& source, const std::string& architecture) {
  const std::string text = text_of(source);
  const Nvrtc& n = nvrtc();
  const KernelKey key{text_with_headers(source) + '\n' + name_and_defines(source) + '\n' + architecture,
                      std::to_string(n.major) + '.' + std::to_string(n.minor)};
  if (cache())
    if (std::string code = find_kernel(*cache(), key, !n.why.empty()); !code.empty()) return code;
  const std::string code = compile_now(source, text, architecture);
  if (!cache()) return code;
  try {
    const std::string file = cached_file(key, code);
    cache()->write(key.file_name(), std::as_bytes(std::span(file)));
  } catch (const Error&) {
    // An unwritable cache costs the next start a compilation and nothing else.
  }
  return code;
}

}  // namespace tenon::cuda

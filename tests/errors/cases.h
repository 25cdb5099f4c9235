// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "support/command.h"
#include "support/proto.h"

/// Inputs that must fail. Each case puts files in a folder and runs the command there; what must come out stands in
/// messages.golden.
namespace tenon::errors {

using test::Folder;

struct Case {
  std::string name;  // "wire.cut": the group of facts it belongs to, then itself
  std::function<void(const Folder&)> prepare;
  std::vector<std::string> words;
};

inline void PrintTo(const Case& one, std::ostream* to) { *to << one.name; }

/// A model file m.onnx that is built; `more` are options.
inline Case building(const std::string& name, const std::string& bytes, std::vector<std::string> more = {}) {
  std::vector<std::string> words{"build", "m.onnx",         "-o", "m.tenon",   "-q", "--budget",
                                 "0",     "--timing-cache", "-",  "--threads", "2"};
  words.insert(words.end(), more.begin(), more.end());
  return {name, [bytes](const Folder& folder) { folder.write("m.onnx", bytes); }, words};
}
/// The same with kernels timed.
inline Case tuning(const std::string& name, const std::string& bytes) {
  return {name,
          [bytes](const Folder& folder) { folder.write("m.onnx", bytes); },
          {"build", "m.onnx", "-o", "m.tenon", "-q", "--timing-cache", "-", "--threads", "2"}};
}
/// The same, built and run on zeros: what fails only when it runs.
inline Case running(const std::string& name, const std::string& bytes, std::vector<std::string> more = {}) {
  std::vector<std::string> words{"bench", "m.onnx",       "-q", "--budget", "0", "--timing-cache", "-", "--threads",
                                 "2",     "--iterations", "1",  "--warmup", "0"};
  words.insert(words.end(), more.begin(), more.end());
  return {name, [bytes](const Folder& folder) { folder.write("m.onnx", bytes); }, words};
}

std::vector<Case> wire_cases();       // 1, 2: no protobuf, no ONNX
std::vector<Case> tensor_cases();     // 3, 5: initializers and sizes
std::vector<Case> external_cases();   // 4: data outside the file
std::vector<Case> memory_cases();     // 6: small files that ask for much
std::vector<Case> graph_cases();      // 7, 8: structure
std::vector<Case> value_cases();      // 9, 10: odd numbers and sizes
std::vector<Case> attribute_cases();  // 11: attributes that an op does not have, or not so
std::vector<Case> operand_cases();    // 12: operands of sizes, types and counts that an op does not take
std::vector<Case> microsoft_cases();  // 13: ops of com.microsoft in forms that are not read

}  // namespace tenon::errors

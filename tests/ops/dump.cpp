// SPDX-License-Identifier: Apache-2.0
// Writes operands and reference results of every case as .npy, and the node as .json, for oracle.py.   Usage: ops_dump
// FOLDER
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "case.h"
#include "cli/npy.h"

int main(int argc, char** argv) {
  using namespace tenon;
  if (argc != 2) return 2;
  int number = 1000;
  for (const tests::Case& one : tests::read_cases(TENON_SOURCE_DIR "/tests/ops")) {
    const std::string stem = std::string(argv[1]) + "/" + std::to_string(number++);
    const ir::Node& node = one.node();
    nlohmann::json json{{"text", one.name()},
                        {"op", node.op},
                        {"inputs", node.inputs.size()},
                        {"outputs", node.outputs.size()},
                        {"attributes", nlohmann::json::object()}};
    for (const auto& [name, value] : node.attributes)
      std::visit([&](const auto& item) {
        if constexpr (requires { json = item; }) json["attributes"][name] = item;
      }, value);
    for (size_t at = 0; at < one.operands.size(); ++at)
      if (one.operands[at]) cli::write_npy(stem + ".in" + std::to_string(at) + ".npy", one.operands[at]);
    const std::vector<Tensor> results = tests::reference(one);
    for (size_t at = 0; at < results.size(); ++at)
      cli::write_npy(stem + ".out" + std::to_string(at) + ".npy", results[at]);
    std::ofstream(stem + ".json") << json.dump();
  }
}

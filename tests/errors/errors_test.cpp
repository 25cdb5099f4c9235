// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "cases.h"

namespace tenon::errors {
namespace {

constexpr char golden_path[] = TENON_SOURCE_DIR "/tests/errors/messages.golden";
constexpr int seconds = 60;
constexpr long most_kib = 1 << 20;

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& group : {wire_cases(), tensor_cases(), external_cases(), memory_cases(), graph_cases(),
                            value_cases(), attribute_cases(), operand_cases(), microsoft_cases()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

/// What the user sees, as it stands in the golden file.
std::string observe(const Case& one, long& peak_kib) {
  const Folder folder;
  one.prepare(folder);
  const test::Outcome outcome = test::run_tenon(folder, one.words, seconds);
  peak_kib = outcome.peak_kib;
  std::string text = "exit " + std::to_string(outcome.status) + "\n" + outcome.err;
  for (size_t at; (at = text.find(folder.path())) != std::string::npos;)
    text.replace(at, folder.path().size(), "FOLDER");
  return text;
}

std::map<std::string, std::string> golden() {
  std::map<std::string, std::string> sections;
  std::ifstream file(golden_path);
  std::string* section = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("## ", 0) == 0) section = &sections[line.substr(3)];
    else if (section && !line.empty()) *section += line + "\n";
  }
  return sections;
}

class Message : public ::testing::TestWithParam<Case> {};

TEST_P(Message, IsAsWritten) {
  static const std::map<std::string, std::string> expected = golden();
  const auto found = expected.find(GetParam().name);
  ASSERT_NE(found, expected.end()) << "messages.golden lacks it";
  long peak_kib = 0;
  EXPECT_EQ(observe(GetParam(), peak_kib), found->second);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(peak_kib, most_kib);
#endif
}

INSTANTIATE_TEST_SUITE_P(Errors, Message, ::testing::ValuesIn(all_cases()), [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

/// With TENON_TEST_REWRITE=1 writes messages.golden anew before the tests; its difference is to be read.
class Rewriting : public ::testing::Environment {
  void SetUp() override {
    if (!std::getenv("TENON_TEST_REWRITE")) return;
    std::ofstream file(golden_path);
    long peak_kib = 0;
    for (const Case& one : all_cases()) file << "## " << one.name << "\n" << observe(one, peak_kib) << "\n";
  }
};

const auto* const rewriting = ::testing::AddGlobalTestEnvironment(new Rewriting);

}  // namespace
}  // namespace tenon::errors

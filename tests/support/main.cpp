// SPDX-License-Identifier: Apache-2.0
// gtest_main, but for what ctest shall know: 77 says that every test was skipped, 1 also that none was selected.
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  if (testing::GTEST_FLAG(list_tests) || status != 0) return status;
  if (tests.test_to_run_count() == 0) {
    std::fprintf(stderr, "no test has been selected\n");
    return 1;
  }
  return tests.successful_test_count() == 0 ? 77 : 0;
}

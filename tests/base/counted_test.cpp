// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(Counted, OneIsSingular) {
  EXPECT_EQ(counted(1, "element"), "1 element");
  EXPECT_EQ(counted(1, "axis"), "1 axis");
}

TEST(Counted, ManyAndNoneArePlural) {
  EXPECT_EQ(counted(0, "element"), "0 elements");
  EXPECT_EQ(counted(-2, "axis"), "-2 axes");
  EXPECT_EQ(counted(size_t{2}, "index"), "2 indices");
  EXPECT_EQ(counted(3, "entry"), "3 entries");
  EXPECT_EQ(counted(3, "array"), "3 arrays");
  EXPECT_EQ(counted(80, "class"), "80 classes");
  EXPECT_EQ(counted(2, "batch"), "2 batches");
  EXPECT_EQ(counted(17, "key point"), "17 key points");
}

TEST(Counted, ASymbolIsPlural) { EXPECT_EQ(counted("n", "channel"), "n channels"); }

}  // namespace
}  // namespace tenon

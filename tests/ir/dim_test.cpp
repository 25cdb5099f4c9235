// SPDX-License-Identifier: Apache-2.0
#include "ir/dim.h"

#include <gtest/gtest.h>

using tenon::ir::Dim;

TEST(Dim, KeepsExpressionsInNormalForm) {
  const Dim n = Dim::symbol("N"), h = Dim::symbol("H");
  EXPECT_EQ((n * 2 + h - n).str(), "H+N");
  EXPECT_EQ((n - n).str(), "0");
  EXPECT_EQ((n * h * 3).str(), "3*H*N");
  EXPECT_TRUE(n * h == h * n);
}

TEST(Dim, DividesWithoutRemainderWherePossible) {
  const Dim n = Dim::symbol("N");
  EXPECT_EQ((n * 51200).exact_div(Dim(6400))->str(), "8*N");
  EXPECT_EQ((n * 51200).exact_div(n * 100)->str(), "512");
  EXPECT_FALSE(n.exact_div(Dim(2)));
  const Dim h = Dim::symbol("H").floor_div(14), w = Dim::symbol("W").floor_div(14), tokens = n * (h * w + 1);
  EXPECT_EQ((tokens * 384).exact_div(tokens * 64)->str(), "6");
  EXPECT_EQ((tokens * (w + 2)).exact_div(w + 2)->str(), tokens.str());
  EXPECT_FALSE((tokens + 1).exact_div(tokens));
  EXPECT_FALSE(tokens.exact_div(n * 2));
  EXPECT_FALSE(n.exact_div(Dim(0)));
}

TEST(Dim, FloorDivisionTakesWholeTermsOut) {
  const Dim n = Dim::symbol("N");
  EXPECT_EQ((n * 2 + 1).floor_div(2).str(), "N");
  EXPECT_EQ((n + 1).floor_div(2).str(), "(N+1)//2");
  EXPECT_EQ(Dim(-3).floor_div(2).value(), -2);
  EXPECT_EQ(((n + 3).floor_div(4) + 1).floor_div(2).str(), "(N+7)//8");
  EXPECT_EQ((n.floor_div(2) * 3).floor_div(4).str(), "(3*(N)//2)//4");
}

TEST(Dim, ReadsItsOwnText) {
  for (const char* text : {"0", "-3", "N", "2*N+1", "(H+1)//2", "-N+4", "3*(H+1)//2*W+7"}) {
    const auto dim = Dim::parse(text);
    ASSERT_TRUE(dim) << text;
    EXPECT_TRUE(Dim::parse(dim->str()) == dim) << text;
  }
  for (const char* text : {"", "+", "N*", "(N", "(N)//0", "99999999999999999999", "N N"})
    EXPECT_FALSE(Dim::parse(text)) << text;
}

TEST(Dim, NamesHaveABound) {
  const std::string name(2000, 'a'), other = name + "b";
  const Dim dim = Dim::symbol(name);
  EXPECT_EQ(dim.str().size(), 128u);
  EXPECT_TRUE(Dim::symbol(dim.str()) == dim);
  EXPECT_FALSE(Dim::symbol(other) == dim);
}

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "support/net.h"

namespace tenon::test {

/// x (1 x size) -> `rounds` times tanh(product), carried and scanned -> y (1 x size), ys (rounds x 1 x size).
inline std::string loop_net(int64_t size, int64_t rounds) {
  const std::string body = input("i", {}, i64) + input("c", {}, boolean) + input("h", {1, size}) +
                           node("product", "MatMul", {"h", "w"}, {"p"}) + node("tanh", "Tanh", {"p"}, {"t"}) +
                           node("again", "Identity", {"c"}, {"on"}) + node("scan", "Identity", {"t"}, {"s"}) +
                           value(12, "on", {}, boolean) + value(12, "t", {1, size}) + value(12, "s", {1, size});
  return model(input("x", {1, size}) + random_weights("w", {size, size}, 5) + scalar("n", rounds) +
               tensor("true", boolean, {}, std::string(1, '\1')) +
               node("loop", "Loop", {"n", "true", "x"}, {"y", "ys"}, graph("body", body)) + output("y") + output("ys"));
}

/// x (1 x size), last -> as long as the round is less than `last`, and once more, h + 1 -> y.
inline std::string while_net(int64_t size) {
  const std::string body = input("i", {}, i64) + input("c", {}, boolean) + input("h", {1, size}) +
                           node("add", "Add", {"h", "one"}, {"t"}) + node("less", "Less", {"i", "last"}, {"on"}) +
                           value(12, "on", {}, boolean) + value(12, "t", {1, size});
  return model(input("x", {1, size}) + input("last", {}, i64) + random_weights("one", {1, size}, 5) +
               tensor("true", boolean, {}, std::string(1, '\1')) +
               node("loop", "Loop", {"", "true", "x"}, {"y"}, graph("body", body)) + output("y"));
}

/// x (1 x size), c (a condition) -> one of two layers -> y.
inline std::string branch_net(int64_t size) {
  const std::string yes =
      node("product", "MatMul", {"b", "w"}, {"p"}) + node("relu", "Relu", {"p"}, {"u"}) + value(12, "u", {1, size});
  const std::string no = node("negative", "Neg", {"b"}, {"v"}) + value(12, "v", {1, size});
  return model(input("x", {1, size}) + input("c", {}, boolean) + random_weights("w", {size, size}, 5) +
               node("before", "Abs", {"x"}, {"b"}) +
               node("choice", "If", {"c"}, {"y"}, graph("then_branch", yes) + graph("else_branch", no)) + output("y"));
}

}  // namespace tenon::test

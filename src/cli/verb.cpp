// SPDX-License-Identifier: Apache-2.0
#include "cli/verb.h"

#include <algorithm>

namespace tenon::cli {

namespace {
std::vector<Verb>& registered() {
  static std::vector<Verb> list;
  return list;
}
}  // namespace

Registrar::Registrar(Verb verb) { registered().push_back(verb); }

std::vector<Verb> verbs() {
  std::vector<Verb> list = registered();
  std::sort(list.begin(), list.end(), [](const Verb& a, const Verb& b) { return a.rank < b.rank; });
  return list;
}

}  // namespace tenon::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tenon::cli {

/// A verb of the command, one file each. `add` declares its options on `app` and gives the function that does the work;
/// that function returns the exit status and throws tenon::Error.
struct Verb {
  int rank;  // place in --help
  const char* name;
  const char* says;  // one line for --help
  std::function<int()> (*add)(CLI::App& app);
};

/// In the order of rank.
std::vector<Verb> verbs();

struct Registrar {
  explicit Registrar(Verb verb);
};

}  // namespace tenon::cli

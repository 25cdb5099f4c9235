// SPDX-License-Identifier: Apache-2.0
// The public API as the design has it, line by line, and one fault of each kind.
#include <tenon/tenon.hpp>

#include <iostream>

int main(int, char** argv) {
  auto engine = tenon::build(argv[1], {.precision = tenon::Precision::best, .timing_cache = "-"});
  engine.save(argv[2]);
  auto session = tenon::load(argv[2]).session();
  tenon::Tensor tensor(tenon::DType::f32, {1, 3, 320, 320});
  auto outputs = session.run({{"images", tensor}});
  std::cout << engine.outputs()[0].name << " " << tenon::name(outputs[0].dtype()) << " " << outputs[0].dims().str()
            << "\n";

  int caught = 0;
  try {
    tenon::load("/nonexistent.tenon");
  } catch (const tenon::Error& error) {
    caught += error.code() == tenon::Code::io;
  }
  try {
    session.run({{"photos", tensor}});
  } catch (const tenon::Error& error) {
    caught += error.code() == tenon::Code::usage;
  }
  return caught == 2 ? 0 : 1;
}

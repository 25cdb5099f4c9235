// SPDX-License-Identifier: Apache-2.0
// From an ONNX model to its outputs: build, save, load, run.   usage: first MODEL.onnx ENGINE.tenon
#include <tenon/tenon.hpp>

#include <chrono>
#include <iostream>

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: first MODEL.onnx ENGINE.tenon\n";
    return 2;
  }
  const tenon::Engine built = tenon::build(argv[1], {.precision = tenon::Precision::best, .budget_seconds = 2});
  built.save(argv[2]);

  const tenon::Engine engine = tenon::load(argv[2]);
  tenon::Session session = engine.session();
  std::map<std::string, tenon::Tensor> inputs;
  for (const tenon::TensorInfo& info : engine.inputs()) {
    tenon::Dims dims(info.shape);
    for (int64_t& size : dims) size = std::max<int64_t>(size, 1);  // a size that may change is -1
    inputs[info.name] = tenon::Tensor(info.dtype, dims);           // zeros
  }

  std::vector<tenon::Tensor> outputs;
  constexpr int warm_up = 10, timed = 20;
  for (int run = 0; run < warm_up; ++run) outputs = session.run(inputs);
  const auto start = std::chrono::steady_clock::now();
  for (int run = 0; run < timed; ++run) outputs = session.run(inputs);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  for (size_t at = 0; at < outputs.size(); ++at)
    std::cout << engine.outputs()[at].name << " " << tenon::name(outputs[at].dtype()) << " " << outputs[at].dims().str()
              << "\n";
  std::cout << took.count() / timed << " ms a run, mean of " << timed << " after " << warm_up << " for warm-up\n";
  return 0;
} catch (const tenon::Error& error) {
  std::cerr << error.text() << "\n";
  return static_cast<int>(error.code());
}

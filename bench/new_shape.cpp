// SPDX-License-Identifier: Apache-2.0
// What sessions cost before their first run: the first of an engine, another, and sizes that a session has not seen.
//   new_shape ENGINE INPUT AXIS FROM TO [THREADS [ROUNDS]]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <tenon/tenon.hpp>

#include "backends/host_arena.h"
#include "engine/engine.h"
#include "runtime/program.h"

namespace {

using namespace tenon;
using Clock = std::chrono::steady_clock;
constexpr size_t few = 5;  // of what takes long

template <class Work>
double microseconds(const Work& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

int measure(const std::string& path, const std::string& input, size_t axis, int64_t from, int64_t to, int threads,
            int rounds) {
  std::unique_ptr<Engine> engine;
  fmt::print("load               {:10.1f} us\n",
             microseconds([&] { engine = std::make_unique<Engine>(Engine::load(path)); }));
  std::unique_ptr<Session> first, second;
  fmt::print("first session      {:10.1f} us\n",
             microseconds([&] { first = std::make_unique<Session>(engine->session(threads)); }));
  fmt::print("second session     {:10.1f} us\n",
             microseconds([&] { second = std::make_unique<Session>(engine->session(threads)); }));
  const plan::Plan& plan = plan_of(*engine);
  plan::Shared shared;
  ThreadPool thread_pool(threads);
  const runtime::Program own(plan, plan.shapes, thread_pool, &shared);
  plan::Plan bare = plan;  // as it would be planned and packed without steps
  bare.steps.clear(), bare.shapes.clear();
  const auto arena = std::make_shared<backends::HostArena>();  // as programs of one session share it
  // Binding alone, all that run() does before its first step, and the same with nothing to go by.
  std::vector<double> binding, making, planning;
  for (int round = 0; round < rounds; ++round)
    for (int64_t size = from; size <= to; ++size) {
      Shapes shapes = plan.shapes;
      shapes.at(input).at(axis) = size;
      if (shapes == plan.shapes) continue;
      const double bound = microseconds([&] { shared.bind(plan, shapes, threads); });
      std::unique_ptr<runtime::Program> program;
      const double made = microseconds(
          [&] { program = std::make_unique<runtime::Program>(plan, shapes, thread_pool, &shared, arena); });
      if (round > 0) binding.push_back(bound), making.push_back(made);
      else if (planning.size() < few)
        planning.push_back(microseconds([&] { runtime::Program program(bare, shapes, thread_pool); }));
    }
  if (binding.empty()) throw std::runtime_error("there is no other size from FROM to TO, or no round");
  fmt::print("new sizes, bound   {:10.1f} us, the median of {}; least {:.1f}\n", median(binding), binding.size(),
             *std::min_element(binding.begin(), binding.end()));
  fmt::print("new sizes, ready   {:10.1f} us, steps made and memory taken; least {:.1f}\n", median(making),
             *std::min_element(making.begin(), making.end()));
  fmt::print("planned anew       {:10.1f} us\n", median(planning));
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 6) {
    fmt::print(stderr, "new_shape ENGINE INPUT AXIS FROM TO [THREADS [ROUNDS]]\n");
    return 2;
  }
  return measure(argv[1], argv[2], static_cast<size_t>(std::atoi(argv[3])), std::atoi(argv[4]), std::atoi(argv[5]),
                 argc > 6 ? std::atoi(argv[6]) : 1, argc > 7 ? std::atoi(argv[7]) : 40);
} catch (const tenon::Error& error) {
  fmt::print(stderr, "{}\n", error.text());
  return 1;
}

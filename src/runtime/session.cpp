// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>
#include <tenon/session.h>

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "runtime/session.h"

namespace tenon {
namespace {

/// The engine's own sizes, and in their place those given.
Shapes bound(const plan::Plan& plan, const Shapes& shapes) { return plan::merged(plan.shapes, shapes); }

/// A future, and what fulfils it.
std::pair<std::future<std::vector<Tensor>>, Session::Done> promised() {
  const auto promise = std::make_shared<std::promise<std::vector<Tensor>>>();
  return {promise->get_future(), [promise](std::vector<Tensor> outputs, std::exception_ptr error) {
            if (error) promise->set_exception(std::move(error));
            else promise->set_value(std::move(outputs));
          }};
}

}  // namespace

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Session Engine::session(int threads, const Shapes& shapes) const {
  const int most = std::min(usable_cores(), ThreadPool::most_threads);
  if (threads == 0) threads = std::min(impl_->plan.threads, most);
  if (threads < 1 || threads > ThreadPool::most_threads)
    throw Error(Code::usage, "cannot run on " + std::to_string(threads) + " threads",
                {.hint = "give 1 to " + std::to_string(ThreadPool::most_threads)});
  const BudgetScope scope(impl_->budget);
  auto impl = std::make_unique<Session::Impl>(impl_, threads);
  impl->add_program(bound(impl_->plan, shapes));
  return Session(std::move(impl));
}

Session Engine::session(const std::string& profile, int threads) const {
  const size_t at = plan::profile_named(impl_->plan, profile);
  Session made = session(threads, impl_->plan.profiles[at].opt);
  made.impl_->profile = at;
  return made;
}

Session Engine::session(Session& other, const Shapes& shapes) const {
  const Session::Impl::Busy busy(*other.impl_);
  const BudgetScope scope(impl_->budget);
  auto impl = std::make_unique<Session::Impl>(impl_, other.impl_->thread_pool.threads());
  impl->arena = other.impl_->programs.front().arena();
  const runtime::Program& program = impl->add_program(bound(impl_->plan, shapes));
  if (!impl->arena || program.arena() != impl->arena)
    throw Error(Code::usage, "the sessions cannot share an arena",
                {.why = !impl->arena       ? "the other is on the CPU"
                        : !program.arena() ? "this one is on the CPU"
                                           : "the other's is smaller, or on another device",
                 .hint = "make the session of the larger engine first"});
  return Session(std::move(impl));
}

void Session::run(std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  const Impl::Busy busy(*impl_);
  impl_->run(inputs, outputs, {});
}

std::vector<Tensor> Session::run(const std::map<std::string, Tensor>& inputs) {
  const Impl::Busy busy(*impl_);
  return impl_->run(inputs);
}

void Session::bind_input(const std::string& name, const Tensor& tensor) {
  const Impl::Busy busy(*impl_);
  const size_t at = impl_->input_named(name);
  if (tensor) impl_->check_input(at, tensor);
  impl_->bound_inputs[at] = tensor;
}

void Session::bind_output(const std::string& name, const Tensor& tensor) {
  const Impl::Busy busy(*impl_);
  const size_t at = impl_->output_named(name);
  if (tensor) impl_->check_target(at, tensor);
  impl_->bound_outputs[at] = tensor;
}

void Session::run() {
  const Impl::Busy busy(*impl_);
  impl_->run_bound();
}

Tensor Session::output(size_t at) const {
  const Impl::Busy busy(*impl_);
  if (at >= impl_->results.size()) throw Error(Code::usage, "the engine has no output " + std::to_string(at));
  if (!impl_->results[at]) throw Error(Code::usage, "nothing was run yet", {.hint = "call run() first"});
  return impl_->results[at];
}

std::future<std::vector<Tensor>> Session::run_async(std::map<std::string, Tensor> inputs) {
  auto [future, done] = promised();
  run_async(std::move(inputs), std::move(done));
  return std::move(future);
}

void Session::run_async(std::map<std::string, Tensor> inputs, Done done) {
  const Impl::Busy busy(*impl_, Impl::Busy::Pending::allowed);
  impl_->put_in_line([impl = impl_.get(), inputs = std::move(inputs)] { return impl->run(inputs); }, std::move(done));
}

std::future<std::vector<Tensor>> Session::run_async() {
  auto [future, done] = promised();
  run_async(std::move(done));
  return std::move(future);
}

void Session::run_async(Done done) {
  const Impl::Busy busy(*impl_, Impl::Busy::Pending::allowed);
  const auto work = [impl = impl_.get()] {
    impl->run_bound();
    return impl->results;
  };
  impl_->put_in_line(work, std::move(done));
}

Tensor Session::input(size_t at) {
  const Impl::Busy busy(*impl_);
  if (at >= impl_->bound_inputs.size()) throw Error(Code::usage, "the engine has no input " + std::to_string(at));
  return impl_->programs.front().input(at);
}

void Session::enqueue(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void* stream) {
  const Impl::Busy busy(*impl_);
  impl_->enqueue(inputs, outputs, stream);
}

void Session::enqueue(void* stream) {
  const Impl::Busy busy(*impl_);
  impl_->enqueue(impl_->bound_inputs, impl_->bound_outputs, stream);
}

Tensor Session::device_input(size_t at) const { return impl_->on_device(at, true); }
Tensor Session::device_output(size_t at) const { return impl_->on_device(at, false); }

std::vector<LayerTime> Session::profile(std::span<const Tensor> inputs, int iterations) {
  const Impl::Busy busy(*impl_);
  const BudgetScope scope(impl_->engine->budget);
  const std::span<const Tensor> ready = impl_->prepared(inputs);
  std::vector<LayerTime> times = impl_->program(ready).profile(ready, iterations);
  impl_->engine->check_lost();
  return times;
}

std::vector<double> Session::device_times(int iterations) {
  const Impl::Busy busy(*impl_);
  return impl_->programs.front().device_times(iterations);
}

MemoryUse Session::memory() const { return impl_->programs.front().memory(); }
int Session::threads() const { return impl_->thread_pool.threads(); }

}  // namespace tenon

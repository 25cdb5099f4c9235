// SPDX-License-Identifier: Apache-2.0
#include "compile/pace.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tenon::compile {
namespace {

constexpr double least_known = 0.05;  // of an item or of a part: less is no pace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Pace::Pace(Progress told, Clock clock)
    : told_(std::move(told)), clock_(clock ? std::move(clock) : Clock(steady_seconds)), last_(clock_()) {}

void Pace::expect(const std::string& part, double items, double cost, const std::string& like) {
  Part& one = parts_[part];
  one.items = std::max(items, one.done), one.cost = cost, one.like = like;
}

void Pace::expect_seconds(const std::string& part, double items, double seconds) {
  expect(part, items);
  parts_[part].seconds = seconds;
}

void Pace::skip(const std::string& part) { parts_[part].items = parts_[part].done; }

Pace::Scope::Scope(Pace& pace, const std::string& part, double items) : pace_(pace), items_(items) {
  pace_.account();
  pace_.scopes_.push_back(part);
}

Pace::Scope::~Scope() {
  pace_.account();
  Part& part = pace_.parts_[pace_.scopes_.back()];
  part.spent += std::exchange(part.open, 0);
  part.done += items_;
  part.items = std::max(part.items, part.done);
  pace_.scopes_.pop_back();
}

Pace::Part* Pace::current() {
  const auto found = parts_.find(scopes_.empty() ? stage_ : scopes_.back());
  return found == parts_.end() ? nullptr : &found->second;
}

void Pace::account() {
  const double now = clock_();
  if (Part* part = current()) part->open += now - last_;
  last_ = now;
}

bool Pace::report(const std::string& stage, double done, double own_left) {
  account();
  inner_end_ = scopes_.empty() || own_left < 0 ? 0 : last_ + own_left;
  const auto begins = beginnings_.find(stage);
  const std::string& name = begins == beginnings_.end() ? stage : begins->second;
  if (const auto found = parts_.find(name); scopes_.empty() && found != parts_.end()) {
    if (name != stage_ && parts_.count(stage_)) skip(stage_);
    stage_ = name;
    Part& part = found->second;
    if (const double so_far = std::min(done, 1.0) * part.items; so_far > part.done) {
      part.done = so_far;
      part.spent += std::exchange(part.open, 0);
    }
    part.own_end = own_left < 0 ? -1 : last_ + own_left;
  }
  return !told_ || told_(stage, done, left());
}

Progress Pace::progress() {
  return [this](const std::string& stage, double done, double left) { return report(stage, done, left); };
}

double Pace::spent(const std::string& part) const {
  const auto found = parts_.find(part);
  return found == parts_.end() ? 0 : found->second.spent;
}

double Pace::item_of(const Part& part, int depth) const {
  constexpr int deepest = 8;
  if (part.done > least_known * std::min(1.0, part.items)) return part.spent / part.done;
  if (part.items == 0) return 0;
  if (part.seconds >= 0) return part.seconds;
  const auto like = parts_.find(part.like);
  if (like == parts_.end() || depth == deepest) return -1;
  const double item = item_of(like->second, depth + 1);
  return item < 0 ? -1 : part.cost * item;
}

double Pace::left_inside(const Part& part, double item) const {
  constexpr double late = 0.25;  // of what an item has taken, that it takes still when it is over its time
  const double behind = std::max(0.0, part.items - part.done - 1);
  // What takes longer than those before it says so of those behind it, too.
  return std::max(item - part.open, late * part.open) + behind * std::max(item, part.open);
}

double Pace::left() {
  account();
  double sum = 0;
  for (const auto& [name, part] : parts_) {
    if (part.items <= part.done) continue;
    if (scopes_.empty() && name == stage_ && part.own_end >= 0) {
      sum += std::max(0.0, part.own_end - last_);
      continue;
    }
    const double item = item_of(part);
    if (item < 0) return -1;
    const bool is_inner = !scopes_.empty() && scopes_.back() == name;
    const double rest = std::max(0.0, (part.items - part.done) * item - part.open);
    sum += is_inner ? std::max(left_inside(part, item), inner_end_ - last_) : rest;
  }
  return sum;
}

}  // namespace tenon::compile

// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <set>
#include <utility>

#include "base/counted.h"
#include "plan/plan.h"

namespace tenon::plan {
namespace {

[[noreturn]] void refuse(const Profile& profile, const std::string& why, const std::string& hint = "") {
  const std::string which = profile.name.empty() ? "the profile" : "profile \"" + profile.name + "\"";
  throw Error(Code::usage, which + " cannot be", {.why = why, .hint = hint});
}

/// Why sizes lie outside a profile; "" where they do not.
std::string outside(const Profile& profile, const Shapes& sizes) {
  for (const auto& [name, least] : profile.min) {
    const std::vector<int64_t>&most = profile.max.at(name), &given = sizes.at(name);
    const std::string input = "input \"" + name + "\" has ";
    if (given.size() != least.size())
      return input + counted(given.size(), "axis") + ", the profile has " + std::to_string(least.size());
    for (size_t axis = 0; axis < least.size(); ++axis)
      if (given[axis] < least[axis] || given[axis] > most[axis])
        return input + std::to_string(given[axis]) + " on axis " + std::to_string(axis) + ", the engine is for " +
               std::to_string(least[axis]) + " to " + std::to_string(most[axis]);
  }
  return {};
}

/// Sizes of one input: of the same axes, none negative, from the least to the most, and as the model fixes them.
void check_input(const Profile& profile, const ir::Value& value) {
  const std::vector<int64_t>&least = profile.min.at(value.name), &best = profile.opt.at(value.name),
                            &most = profile.max.at(value.name);
  const std::string input = "input \"" + value.name + "\"";
  if (least.size() != best.size() || most.size() != best.size() || (value.shape && value.shape->size() != best.size()))
    refuse(profile, input + " has not the same axes in all its sizes and in the model");
  for (size_t axis = 0; axis < best.size(); ++axis) {
    const std::string at = input + " has on axis " + std::to_string(axis) + " ";
    const std::string range = std::to_string(least[axis]) + ", " + std::to_string(best[axis]) + ", " +
                              std::to_string(most[axis]);
    if (least[axis] < 0 || best[axis] < least[axis] || most[axis] < best[axis])
      refuse(profile, at + range, "give the least, the best and the most, in that order");
    if (!value.shape || !(*value.shape)[axis].is_constant()) continue;
    const int64_t fixed = (*value.shape)[axis].value();
    if (least[axis] != fixed || most[axis] != fixed)
      refuse(profile, at + range + "; the model expects " + std::to_string(fixed));
  }
}

}  // namespace

Shapes sizes_of(const Plan& plan, const Shapes& shapes) {
  Shapes all;
  for (const ir::ValueId input : plan.graph.inputs) {
    const ir::Value& value = plan.graph.value(input);
    if (!value.shape) continue;
    std::vector<int64_t>& sizes = all[value.name];
    for (const ir::Dim& dim : *value.shape) sizes.push_back(dim.is_constant() ? dim.value() : 1);
  }
  return merged(std::move(all), shapes);
}

Shapes merged(Shapes base, const Shapes& given) {
  for (const auto& [name, sizes] : given) {
    std::vector<int64_t>& own = base[name];
    const std::vector<int64_t> before = std::exchange(own, sizes);
    for (size_t axis = 0; axis < own.size() && before.size() == own.size(); ++axis)
      if (own[axis] < 0) own[axis] = before[axis];
  }
  return base;
}

bool covers(const Plan& plan, const Shapes& shapes) {
  for (const ir::ValueId input : plan.graph.inputs)
    if (!shapes.count(plan.graph.value(input).name)) return false;
  return true;
}

size_t profile_for(const Plan& plan, const Shapes& shapes) {
  if (plan.profiles.empty()) return 0;
  const Shapes sizes = sizes_of(plan, shapes);
  std::string why;
  for (size_t at = 0; at < plan.profiles.size(); ++at) {
    std::string here = outside(plan.profiles[at], sizes);
    if (here.empty()) return at;
    if (why.empty()) why = std::move(here);
  }
  throw Error(Code::usage,
              plan.profiles.size() == 1 ? "sizes lie outside of the engine's profile"
                                        : "sizes lie outside of every profile of the engine",
              {.why = why, .hint = "build it with a profile that holds them"});
}

void check_profile(const Plan& plan, size_t profile, const Shapes& shapes) {
  const std::string why = outside(plan.profiles[profile], sizes_of(plan, shapes));
  if (!why.empty())
    throw Error(Code::usage, "sizes lie outside of the session's profile",
                {.why = why, .hint = "use a session for all profiles, or another one"});
}

size_t profile_named(const Plan& plan, const std::string& name) {
  std::string names;
  for (size_t at = 0; at < plan.profiles.size(); ++at) {
    if (plan.profiles[at].name == name) return at;
    names += (at ? ", " : "") + plan.profiles[at].name;
  }
  throw Error(Code::usage, "the engine has no profile \"" + name + "\"",
              {.hint = names.empty() ? "it was built without profiles" : "it has " + names});
}

void set_profiles(Plan& plan, const std::vector<Profile>& profiles, const Shapes& shapes) {
  plan.profiles = profiles;
  const Shapes others = sizes_of(plan, shapes);
  for (size_t at = 0; at < profiles.size(); ++at) {
    Profile& profile = plan.profiles[at];
    if (profile.name.empty() && profiles.size() > 1) profile.name = std::to_string(at);
    for (const auto& [name, sizes] : profile.opt) profile.min.emplace(name, sizes), profile.max.emplace(name, sizes);
    for (const ir::ValueId input : plan.graph.inputs) {
      const std::string& name = plan.graph.value(input).name;
      const auto given = others.find(name);
      if (profile.opt.count(name) || given == others.end()) continue;
      if (profile.min.count(name) || profile.max.count(name))
        refuse(profile, "input \"" + name + "\" has no best sizes", "give them");
      for (Shapes* list : {&profile.min, &profile.opt, &profile.max}) (*list)[name] = given->second;
    }
  }
  check_profiles(plan);
}

void check_profiles(const Plan& plan) {
  std::set<std::string> names;
  for (const Profile& profile : plan.profiles) {
    if (!names.insert(profile.name).second) refuse(profile, "two have that name");
    std::set<std::string> inputs;
    for (const ir::ValueId input : plan.graph.inputs) {
      const ir::Value& value = plan.graph.value(input);
      inputs.insert(value.name);
      if (value.dtype == DType::sequence) continue;
      if (!profile.min.count(value.name) || !profile.opt.count(value.name) || !profile.max.count(value.name))
        refuse(profile, "input \"" + value.name + "\" has no sizes", "give them");
      check_input(profile, value);
    }
    for (const Shapes* list : {&profile.min, &profile.opt, &profile.max})
      for (const auto& [name, sizes] : *list)
        if (!inputs.count(name)) refuse(profile, "the model has no input \"" + name + "\"");
  }
}

}  // namespace tenon::plan

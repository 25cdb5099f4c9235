// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/device.h>

#include <string>
#include <vector>

/// What a build decides about how a plan runs. An engine file holds it.
namespace tenon::plan {

struct Steps;

/// A step, by the name of what it gives: names hold for all sizes, node numbers do not.
struct StepChoice {
  std::string result;         // the first of its node
  std::string tactic;         // of the device; "" where it has none
  std::string host = {};      // of the host, in that case
  std::vector<Steps> blocks;  // of a node that runs its bodies, in the order of ops::bodies_of; no makers
  bool operator==(const StepChoice&) const;
};

/// How a graph runs within a profile, in order.
struct Steps {
  std::string maker;                // the device and program that they are for; "": not made yet
  std::vector<std::string> groups;  // results of fusion groups that run as one step
  std::vector<StepChoice> steps;    // none where sizes depend on data
  bool concurrent = false;          // those that need nothing of each other may run at the same time
  std::vector<int> placement;       // of the memory between them, at the best sizes
  std::vector<Steps> rest = {};     // of the parts behind sizes that data decides, where there are any
  bool operator==(const Steps&) const;
};

inline bool StepChoice::operator==(const StepChoice& other) const {
  return result == other.result && tactic == other.tactic && host == other.host && blocks == other.blocks;
}

inline bool Steps::operator==(const Steps& other) const {
  return maker == other.maker && groups == other.groups && steps == other.steps && concurrent == other.concurrent &&
         placement == other.placement && rest == other.rest;
}

}  // namespace tenon::plan

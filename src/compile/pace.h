// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tenon::compile {

/// How long a build has still to go: each part of it by its own pace, as soon as some of it is done, and before by that
/// of a part whose items are alike.
class Pace {
 public:
  using Clock = std::function<double()>;  // in seconds

  /// Tells `told`, which may be empty, of everything; by default with the steady clock.
  explicit Pace(Progress told, Clock clock = {});

  /// So many items of a part are done from the beginning to the end of the build, each as long as `cost` items of the
  /// part `like`. Said again, it replaces the count.
  void expect(const std::string& part, double items, double cost = 1, const std::string& like = {});
  /// The same, each as long as so many seconds before it has a pace.
  void expect_seconds(const std::string& part, double items, double seconds);
  /// A stage of that name is the beginning of a part.
  void begin_with(const std::string& stage, const std::string& part) { beginnings_[stage] = part; }
  /// What was expected of a part, and is not done, will not be.
  void skip(const std::string& part);

  /// While it lives, time is that of a part; what else reports inside it tells the stage alone. Its end is that of so
  /// many items.
  class Scope {
   public:
    Scope(Pace& pace, const std::string& part, double items);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    Pace& pace_;
    double items_;
  };

  /// A stage, how far it is, 0 to 1, and what it expects itself (below 0: it does not know). Where a part is called
  /// so, and no scope lives, that part has got so far, the one before it is over, and what the stage expects is what is
  /// left of it; in a scope the item takes that at least. False where the user cancels.
  bool report(const std::string& stage, double done, double own_left = -1);
  /// The same as a function; it must not outlive this.
  Progress progress();

  /// Seconds that were spent on what is done of a part.
  double spent(const std::string& part) const;

  /// Seconds; below 0 while something is to be done whose pace is not known.
  double left();

 private:
  struct Part {
    double items = 0, cost = 1, done = 0, seconds = -1;
    double spent = 0, open = 0;  // seconds on what is done, and since
    double own_end = -1;         // when it is over, as its stage said last; below 0: it did not
    std::string like;
  };
  /// Time since the last call goes to the part that is being done.
  void account();
  /// What is being done; nullptr where nobody has said.
  Part* current();
  /// Seconds of an item; below 0: not known.
  double item_of(const Part& part, int depth = 0) const;
  /// Seconds of a part one of whose items is being done in a scope.
  double left_inside(const Part& part, double item) const;

  Progress told_;
  Clock clock_;
  double last_, inner_end_ = 0;  // when what a stage inside of the scope expects is over
  std::map<std::string, Part> parts_;
  std::map<std::string, std::string> beginnings_;  // parts, by the stages that they begin with
  std::vector<std::string> scopes_;                // the innermost last
  std::string stage_;                              // the part outside of scopes
};

}  // namespace tenon::compile

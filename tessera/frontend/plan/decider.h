// Answers the decision points of a build and keeps what was decided.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/frontend/plan/point.h"
#include "tessera/support/result.h"

namespace tessera::plan {

// A point that was asked, with its answer.
struct Decided {
  Point point;
  std::int32_t value = 0;  // index into point.labels
  int count = 0;           // how often it was asked: nodes that it decides about

  const std::string& text() const { return point.labels[static_cast<std::size_t>(value)]; }
};

// Of one build, and one thread.
class Decider {
 public:
  using Rule = std::function<Result<std::int32_t>(const Point&)>;  // an index into the values

  Decider() = default;
  // `given` decides the points that it has, by key or by family; `otherwise` the rest (absent: what
  // each point prefers). Keys that no point asks for are ignored.
  explicit Decider(Decisions given, Rule otherwise = {})
      : given_(std::move(given)), otherwise_(std::move(otherwise)) {}

  // An index into point.labels, the same for every point of a key. kInvalidArgument: what was given
  // for the key is none of them, or what was given for the family is a value of no such point. A
  // value of the family that this point does not have leaves it to the rule, whose error ends it.
  Result<std::int32_t> decide(const Point& point);

  const std::vector<Decided>& decided() const { return decided_; }  // in the order of asking
  Decisions decisions() const;                                      // the same by key

 private:
  Result<std::int32_t> answer(const Point& point) const;

  Decisions given_;
  Rule otherwise_;
  std::vector<Decided> decided_;
  std::map<std::string, std::size_t> index_;  // into decided_
};

}  // namespace tessera::plan

// A candidate taking shape: what is decided, and the legal values of the next point.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/scheduling/decide/space.h"

namespace tessera::decide {

// Every value listed leads to a legal candidate, and every legal candidate can be reached.
// Points without effect under those before them are never asked for and keep their preferred
// value, so that two walks that differ end in different candidates. Copies go their own ways; the
// sketch must outlive them.
class Walk {
 public:
  explicit Walk(const Sketch& sketch);

  bool done() const { return done_; }
  // The next point, as an index into those of the sketch. Not when done.
  std::size_t next() const { return next_; }
  const Point& point() const { return sketch_->points()[next_]; }
  // Indices of its legal values, ascending; at least one.
  const std::vector<std::int32_t>& legal() const { return legal_; }
  void take(std::int32_t value);  // one of legal()

  // One value per point of the sketch; what is not decided yet has its preferred one.
  const std::vector<std::int32_t>& choice() const { return choice_; }

 private:
  class Replay;
  void advance();

  const Sketch* sketch_;
  std::vector<std::int32_t> choice_;
  std::size_t taken_ = 0;  // answers, in the order of the questions
  std::size_t next_ = 0;
  bool done_ = false;
  std::vector<std::int32_t> legal_;
};

// Every legal candidate of a space once: sketch after sketch, values in their order. The space must
// outlive it.
class Enumeration {
 public:
  explicit Enumeration(const Space& space) : space_(space) {}

  std::optional<Candidate> next();

 private:
  // A walk, and how many of its next values have been gone along.
  struct Branch {
    Walk walk;
    std::size_t taken = 0;
  };

  const Space& space_;
  std::int32_t sketch_ = -1;
  std::vector<Branch> branches_;
};

}  // namespace tessera::decide

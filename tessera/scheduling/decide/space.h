// A space: sketches with points. Nothing else knows how candidates are made.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/scheduling/decide/sketch.h"
#include "tessera/support/result.h"
#include "tessera/support/rng.h"

namespace tessera::decide {

class Space {
 public:
  explicit Space(std::vector<std::unique_ptr<Sketch>> sketches);

  const std::vector<std::unique_ptr<Sketch>>& sketches() const { return sketches_; }
  const Sketch& sketch_of(const Candidate& candidate) const;
  const std::vector<Point>& points(const Candidate& c) const { return sketch_of(c).points(); }

  // Sketch 0 with every preferred value. Always legal.
  Candidate preferred() const;

  Result<void> check(const Candidate& candidate) const;
  // With points without effect at their preferred values; nullopt where check() fails.
  std::optional<Candidate> settled(const Candidate& candidate) const;

  // A legal candidate, settled: at every point each legal value is as likely as the others.
  // The larger the sketch, the likelier, by the logarithm of its size.
  Candidate sample(Rng& rng) const;
  Candidate sample(std::int32_t sketch, Rng& rng) const;
  // Redraws one point, mostly to a near value, sometimes several; what is not legal beside them
  // takes the nearest value that is. Stays within the sketch and differs from `candidate`; nullopt
  // if that is not found in a bounded number of tries.
  std::optional<Candidate> mutate(const Candidate& candidate, Rng& rng) const;
  // Each point from one of two parents of the same sketch.
  std::optional<Candidate> cross(const Candidate& a, const Candidate& b, Rng& rng) const;

  // Candidates before legality: the sum over sketches of the product of their values.
  double size() const;
  // Legal candidates, by enumeration, if size() is at most `limit`.
  std::optional<std::int64_t> count_legal(std::int64_t limit) const;

  // "reasoned: C.rows=8 C.vectors=3 ...": every point by name, in order.
  std::string to_text(const Candidate& candidate) const;
  // Accepts any order. Names and values that the space does not have are errors that list what it
  // has, and so are points that are absent: of a record they would be today's preference, not what
  // ran.
  Result<Candidate> parse(std::string_view text) const;

  // Numbers for models that need no program: log2 of the values, one-hot of words, the sketch.
  // Of equal length for all candidates of the space.
  std::vector<float> vector_of(const Candidate& candidate) const;

 private:
  std::vector<std::unique_ptr<Sketch>> sketches_;
  std::vector<double> weights_;  // of the sketches in sampling, cumulative
  // Columns of vector_of: where each point of each sketch begins, and how many there are.
  std::vector<std::vector<std::size_t>> columns_;
  std::size_t width_ = 0;
};

}  // namespace tessera::decide

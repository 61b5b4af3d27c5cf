// Candidates that a language model writes: every answer is one of the legal values, so that every
// sentence is a candidate of the space.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "tessera/learn/lm/reader.h"
#include "tessera/learn/lm/subject.h"
#include "tessera/support/rng.h"

namespace tessera::lm {

struct GenerateOptions {
  float quality = 1;  // that is asked for
  // Below 1 the likely values of every question become likelier; 0: only the likeliest is taken.
  double temperature = 1;
  // Of the likeliest values as few as reach this chance together; the others are left out.
  double top_p = 1;
  int rows = 64;    // sentences that are written side by side
  int threads = 1;  // that choose among their values
  // Whether answers are drawn among the legal values. Else among all values, as models do that know
  // no space, and a sentence is thrown away at the first that is not legal: for studies.
  bool constrained = true;
};

struct Generated {
  decide::Candidate candidate;
  double log_prob = 0;  // of the sketch and all answers, by the model and not by what drew them
};

// Not for use by two threads at once. Space and reader must outlive it.
class Generator {
 public:
  Generator(const space::Space& space, Reader& reader, const GenerateOptions& options);

  // False: the candidate is not wanted (again).
  using Claim = std::function<bool(const decide::Candidate&)>;

  // Up to n candidates that `claim` accepts, in the order of drawing, none twice. Where draws keep
  // repeating they become bolder; fewer than n: nothing new was drawn for several rounds.
  Result<std::vector<Generated>> sample(std::size_t n, Rng& rng, const Claim& claim);
  // The n likeliest that a search with `width` unfinished sentences of each sketch finds, the
  // likeliest first. Deterministic.
  Result<std::vector<Generated>> beams(std::size_t n, std::size_t width);

  // What sample() would call the log_prob of each of these, all of the space.
  Result<std::vector<double>> chances_of(std::span<const decide::Candidate> candidates);

  // What sentences about a sketch are about; lives as long as the generator.
  const Subject& subject(std::int32_t sketch);

  // Sentences that sample() has begun, and those of them that it threw away.
  std::size_t begun() const { return begun_; }
  std::size_t thrown_away() const { return thrown_away_; }

 private:
  struct Row;
  static Step step_of(const Row& row, std::size_t number);
  Result<void> choose_sketches();
  // Writes `rows` sentences about a sketch to their ends: `pick` says which of a row's legal values
  // comes next, by their probabilities. Called for several rows at once.
  using Pick = std::function<std::size_t(std::size_t row, const Step&, std::span<const float>)>;
  static void take(const Step& step, std::span<const float> chances, const Pick& pick, Row* row);
  Result<std::vector<Row>> write_rows(std::int32_t sketch, std::size_t count, const Pick& pick);
  Result<void> write(std::int32_t sketch, std::size_t count, double temperature, Rng& rng,
                     std::vector<Generated>* out);
  Result<void> beams_of(std::int32_t sketch, std::size_t width, std::vector<Generated>* out);

  const space::Space& space_;
  Reader& reader_;
  GenerateOptions options_;
  Scribe scribe_;
  Subject choice_;
  std::vector<float> sketches_;  // log-probabilities; empty: not asked yet
  std::map<std::int32_t, Subject> subjects_;
  std::size_t begun_ = 0, thrown_away_ = 0;
};

// Draws an index by log-probabilities under temperature and top_p.
std::size_t draw_value(std::span<const float> log_probs, double temperature, double top_p,
                       Rng& rng);

}  // namespace tessera::lm

// Whether a model learned elsewhere may be believed on a task: keeps account of how well it, the
// model of this search and both together ordered candidates before they were measured.
#pragma once

#include <array>
#include <cstdint>
#include <deque>

namespace tessera::model {

enum class Predictor : std::uint8_t {
  kGlobal,  // learned elsewhere
  kLocal,   // from this search alone
  kBoth,    // the global one, corrected by what this search measured
  kNone,    // nothing that may be believed
};
inline constexpr std::size_t kPredictors = 3;
const char* to_text(Predictor predictor);

// One score of each predictor, NaN where there is none yet.
using PredictorScores = std::array<float, kPredictors>;

// The account of one task. Old orderings count less and less.
class Guard {
 public:
  // A measured candidate with the scores it had before. Scores compare only within one `version`
  // of the predictors. `seconds` 0: it failed.
  void observe(const PredictorScores& scores, double seconds, std::int64_t version);

  // Share of pairs in the right order, weighted by how far they are apart; 0.5 without evidence.
  double accuracy(Predictor predictor) const;
  // The one to use now among those that exist. Without evidence both are believed; a global model
  // that orders worse than chance is not.
  Predictor choose(bool has_global, bool has_local) const;

 private:
  struct Seen {
    PredictorScores scores;
    double seconds;
    std::int64_t version;
  };
  struct Account {
    double right = 0, pairs = 0;
  };

  double belief(Predictor predictor) const;

  std::deque<Seen> seen_;
  std::array<Account, kPredictors> accounts_;
};

}  // namespace tessera::model

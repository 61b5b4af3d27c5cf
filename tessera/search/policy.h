// A policy picks what to measure next. It sees decision points, scores and results; nothing else.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/learn/lm/reader.h"
#include "tessera/scheduling/decide/space.h"
#include "tessera/support/result.h"

namespace tessera::space {
class Space;
}

namespace tessera::search {

class PolicyProgram;

// What came of a candidate. Failures have throughput 0.
struct Observation {
  decide::Candidate candidate;
  double seconds = 0;     // 0: failed
  bool censored = false;  // at least that many seconds
};

// Scores candidates in batches, higher is better; empty result: no model yet.
class Scorer {
 public:
  virtual ~Scorer() = default;
  virtual bool ready() const = 0;
  virtual std::vector<float> score(std::span<const decide::Candidate> candidates) = 0;
  // Spread of the score, in its unit, where the model that gave it tells it; empty otherwise.
  virtual std::vector<float> spread(std::span<const decide::Candidate> candidates) = 0;
};

// Never ready: for policies that use no model, or where there is none.
Scorer& no_scorer();

struct PolicyOptions {
  std::uint64_t seed = 1;
  double random_share = 0.05;  // of each batch, when a model guides
  int population = 0;          // 0: the policy's own
  int generations = 0;
  double diversity = 0;              // weight of new values in a batch; 0: off
  int diversity_factor = 3;          // batches are picked from the best factor * n
  std::string acquisition = "mean";  // or "ei", "ucb"
  // Whether what reasoning prefers is proposed first and bred from; studies withhold it.
  bool with_preferred = true;
  // What policy "lm" writes by, and the task that it writes about, the space itself; null: every
  // legal value is as likely as the others. One thread at a time.
  std::shared_ptr<lm::Reader> language;
  const space::Space* task = nullptr;
  // What policy "exec" is asked of; null: as evolutionary.
  std::shared_ptr<PolicyProgram> program;
  int draws = 256;             // sentences that it writes before it proposes, at least
  std::size_t candidates = 0;  // that the space has, where they are few; 0: not known
  // Asked by policies that look at many candidates before they propose one: true, they end with
  // what they have. Empty: there is time.
  std::function<bool()> late;
  double judge =
      20;  // weight of the cost model's order, relative to the language model's probabilities
};

// Deterministic: the same seed, space, scores and observations give the same proposals.
class Policy {
 public:
  virtual ~Policy() = default;
  // Up to n legal candidates not proposed or observed before; fewer: the space is exhausted.
  virtual std::vector<decide::Candidate> propose(std::size_t n) = 0;
  virtual void observe(std::span<const Observation> observations) = 0;
};

struct PolicyEntry {
  const char* name;
  const char* doc;
  bool uses_model;
  std::unique_ptr<Policy> (*make)(const decide::Space& space, Scorer& scorer,
                                  const PolicyOptions& options);
};

const std::vector<PolicyEntry>& policy_table();
Result<const PolicyEntry*> find_policy(const std::string& name);  // the error lists the names

}  // namespace tessera::search
